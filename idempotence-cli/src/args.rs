//! The arguments of the command. Their comments are its help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::probe::convention::Convention;

/// Finds stuck keys of the crate `idempotence`, explains them and frees them. Works while the program is down.
///
/// A stuck key in three steps: `idempotence ls --state late` lists the keys whose holders do not renew them. `idempotence show
/// orders.pay 9e107d9d` explains one, by its endpoint and the digits of a log line. `idempotence release orders.pay 9e107d9d` frees
/// it, so that an equal call runs again.
///
/// Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 not found, 4 refused.
#[derive(Debug, Parser)]
#[command(
    name = "idempotence",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) access: Access,
    /// Prints JSON, for programs
    #[arg(long, global = true, help_heading = "Options")]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How the store is reached, and how the program makes its keys.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct Access {
    /// The URL of the store, as the program has it
    ///
    /// Without it and its variable, `IDEMPOTENCE_URL` is read. Other users of the machine see a password in an argument: use a variable.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "IDEMPOTENCE_STORE",
        hide_env_values = true
    )]
    pub(crate) store: Option<String>,
    /// The prefix of the program's keys
    #[arg(
        long,
        global = true,
        value_name = "PREFIX",
        env = "IDEMPOTENCE_PREFIX",
        default_value = "idem"
    )]
    pub(crate) prefix: String,
    /// The digest of the program's keys, for `--key`
    ///
    /// The secret of the keys, if there is one, is read from `IDEMPOTENCE_SECRET`.
    #[arg(
        long,
        global = true,
        value_enum,
        env = "IDEMPOTENCE_DIGEST",
        default_value = "md5"
    )]
    pub(crate) digest: Digest,
    /// How long an answer of the store may take
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5s")]
    pub(crate) deadline: Duration,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Digest {
    Md5,
    Sha256,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists the keys of calls
    ///
    /// The call of a key in the state `taken` or `late` runs, or was killed, or has ended with `release = false`: the record does not say
    /// which. A `late` key was not renewed for three quarters of its time, which is 25 s if the lease is 30 s: its holder was
    /// killed, perhaps after the work, or its calls have `renew = false`, or the call has ended with `release = false`. A key that
    /// `at_least` keeps is `taken`. The result of a call is not read. Redis looks at all keys of its database, a few hundred at a
    /// time.
    Ls(Ls),
    /// Shows one key: by the digits of a log line, or by its parts
    Show(Show),
    /// Frees a key, so that an equal call runs again
    ///
    /// Asks first. Removes only the record that it has shown. A running call is refused, unless two looks show that its holder does
    /// not renew it. The second look is when the key is late: at once for a key that `ls` lists as `late`. A call that has ended is refused.
    /// When it ends, it writes one line of JSON to stderr, for an audit, if it has found the key.
    Release(Release),
    /// Prints calls that begin and end, until it is stopped
    ///
    /// It lists the keys again and again, and prints what has changed. It does not see a call that begins and ends between two looks, the
    /// reason of an end, a call that was refused, or a repetition that got a stored result. It keeps all listed keys in memory.
    Tail(Tail),
    /// Checks the store: permissions, persistence, replicas, clocks. Exit code 1 if there is a problem
    Doctor,
    /// Checks and explains settings
    #[command(subcommand)]
    Config(Config),
    /// Tests whether a running service of HTTP, in any language, is idempotent
    ///
    /// Sends requests, says first how many, and asks. They have effects: use a test system without other traffic. Each rule has
    /// the sentence that it comes from. Exit code 4 if the service breaks a rule with the level `must`.
    Probe(Box<Probe>),
    /// Measures how many calls a second the store can claim, beside the same commands by hand
    ///
    /// Puts the store under load, and asks first. Each call claims a key and removes it.
    Bench(Bench),
    /// Makes the tables of a database, or brings them up to date
    Migrate,
    /// Removes the expired records of a database
    Purge,
    /// Prints completions for a shell
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page
    #[command(hide = true)]
    Man,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ls {
    /// Only endpoints of this name. `*` matches any characters
    #[arg(long, value_name = "PATTERN", default_value = "*")]
    pub(crate) endpoint: String,
    /// Only calls in this state
    #[arg(long, value_enum)]
    pub(crate) state: Option<State>,
    /// The most keys of a page. Redis may add a few
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,
    /// Continues where another page ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// The body runs, or its process was killed a moment ago, perhaps after the work; with `release = false` the call may have ended
    Taken,
    /// Taken, and not renewed for three quarters of its time: the lease and its grace
    Late,
    /// Ended with success
    Done,
    /// Ended with a stored error
    Failed,
    /// Ended, and nobody knows whether its work is done
    Unknown,
    /// Of another program or version
    Foreign,
}

/// A key: its endpoint, and its digits or its parts.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// The endpoint, such as `orders.pay` or `POST /orders/{id}/pay`
    pub(crate) endpoint: String,
    /// The digits of a log line
    #[arg(required_unless_present = "part", conflicts_with = "part")]
    pub(crate) digits: Option<String>,
    /// A part of the key, as JSON or as a text; repeat it for each part in the order of the option `key`
    #[arg(long = "key", id = "part", value_name = "PART")]
    pub(crate) parts: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Also prints the stored result, which may be personal data
    #[arg(long)]
    pub(crate) value: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Release {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Does not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only says what it would do
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also frees the key of a call that may still run, so that two bodies run at once, or that has ended, so that its work is repeated
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tail {
    /// Only endpoints of this name. `*` matches any characters
    #[arg(long, value_name = "PATTERN", default_value = "*")]
    pub(crate) endpoint: String,
    /// The pause between two looks
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "2s")]
    pub(crate) every: Duration,
    /// Ends after this time
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) lasts: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// How long the calls are measured, and how long the commands by hand
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "4s")]
    pub(crate) lasts: Duration,
    /// How many calls there are at once
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) callers: u16,
    /// Does not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Probe {
    /// The URL of a request that succeeds, and has an effect
    pub(crate) url: String,
    /// The convention that the service follows
    #[arg(long, value_enum, default_value = "ietf")]
    pub(crate) profile: Convention,
    /// The method of the request
    #[arg(long, value_name = "METHOD", default_value = "POST")]
    pub(crate) method: String,
    /// A header of each request, as `Name: value`, or `@file` with a line for each; repeat it for each header
    ///
    /// Other users of the machine see a password in an argument: use a file.
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,
    /// The body of the request: a text, or `@file`. `{{unique}}` in it is another text for each key that is tested
    ///
    /// A service may refuse two orders with equal bodies. With `{{unique}}` they differ.
    #[arg(long, value_name = "BODY", default_value = "")]
    pub(crate) body: String,
    /// The body of another order. Without it, the first text or number of a body in JSON is changed
    #[arg(long, value_name = "BODY")]
    pub(crate) other_body: Option<String>,
    /// A body that the service answers with a status from 500 on
    #[arg(long, value_name = "BODY")]
    pub(crate) failing_body: Option<String>,
    /// Another path that takes the same request
    #[arg(long, value_name = "URL")]
    pub(crate) other_url: Option<String>,
    /// The header `Authorization` of another user: a text, or `@file`
    #[arg(long, value_name = "VALUE")]
    pub(crate) other_auth: Option<String>,
    /// Where the effect can be read, by GET with the same headers
    #[arg(long, value_name = "URL")]
    pub(crate) effect_url: Option<String>,
    /// The number, or the array, that grows by one with each run
    #[arg(long, value_name = "PATH", default_value = "$.count")]
    pub(crate) effect_json: String,
    /// The service also takes requests without a key
    #[arg(long)]
    pub(crate) optional_key: bool,
    /// How many equal requests are sent at once
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub(crate) storm: u16,
    /// The most requests in a second, except in a storm
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rate: u16,
    /// Refuses to send more requests than this
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    pub(crate) limit: usize,
    /// How long a response may take
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30s")]
    pub(crate) timeout: Duration,
    /// The form of the report
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    /// Does not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people. With `--json` it is JSON
    Table,
    /// XML, for servers that run tests
    Junit,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Reports each mistake of a settings file and of the environment. Exit code 2 if there is one
    Check {
        /// The file
        file: PathBuf,
    },
    /// Prints the settings of an endpoint, each with its origin. The program knows the other values
    Explain {
        /// The endpoint
        endpoint: String,
        /// The settings file. Without it only the environment is read
        #[arg(long, env = "IDEMPOTENCE_SETTINGS")]
        file: Option<PathBuf>,
    },
}
