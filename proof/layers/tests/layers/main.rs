//! The order of files and rooms, the features that the scripts build, and the words of the pages.

mod crates;
mod cycles;
mod features;
mod lock;
mod phrases;
