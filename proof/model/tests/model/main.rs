//! All rules hold in every state, and each mistake breaks its rule.
#![expect(
    clippy::print_stdout,
    reason = "for those who run it with `--nocapture`"
)]

mod mistakes;
mod protocol;
