//! The completions of shells, and the manual page.

use clap::CommandFactory as _;

use crate::args::Args;
use crate::exit::Failure;
use crate::output::Output;

pub(crate) fn completions(shell: clap_complete::Shell, output: &mut Output) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "idempotence", &mut text);
    output.raw(&text)
}

pub(crate) fn man(output: &mut Output) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Args::command()).render(&mut text)?;
    output.raw(&text)
}
