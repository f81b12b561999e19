//! Tests only: each folder beside this file is one program.
