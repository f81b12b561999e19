//! The rules between options, and between options and the function.

use proc_macro2::Ident;

use crate::error::{Errors, error};
use crate::function::{self, Function};
use crate::key::{self, Key};
use crate::lease;
use crate::options::Options;
use crate::output;
use crate::permits;
use crate::value::{OnCancel, OnStoreError, Release};
use syn::Type;
use syn::spanned::Spanned;

/// Reports options that contradict each other.
pub fn check_options(options: &Options, errors: &mut Errors) {
    check_replay(options, errors);
    check_token(options, errors);
    check_fence(options, errors);
    check_also(options, errors);
    permits::check(options, errors);
    check_begin(options, errors);
    match &options.tx {
        Some(_) => check_tx(options, errors),
        None => lease::check(options, errors),
    }
}

/// Reports options that do not fit the function.
pub fn check_function(options: &Options, function: &Function, errors: &mut Errors) {
    let second = function
        .second_attribute(options.krate.as_ref())
        .map(Spanned::span);
    if let Some(second) =
        second.or_else(|| function.is_guarded().then(|| function.sig.ident.span()))
    {
        let message = format_args!("`{}` has `#[idempotent]` twice", function.sig.ident);
        let help = "keep one, with the parts of both keys, as in `key = \"user_id, file_md5\"`; for two guards write two functions, where \
                    one calls the other";
        errors.push(error(second, message, help));
    }
    for key in options.parts() {
        key.check(function).for_each(|error| errors.push(error));
    }
    check_context(options, function, errors);
    match &options.tx {
        Some(tx) if options.written("begin").is_some() => {
            check_begun(options, tx, function, errors);
        }
        Some(tx) => check_transaction(tx, function, errors),
        None => {}
    }
    if options.replay.is_some()
        && let Some(ok) = output::reference_in_ok(&function.output.ty)
    {
        let help = match &*ok.elem {
            Type::Path(path) if path.path.is_ident("str") => {
                "return `String` or `Cow<'static, str>`, as in `Result<String, Error>`"
            }
            _ => "return the value itself, as in `Result<Receipt, Error>`",
        };
        errors.push(error(
            ok.span(),
            "`replay` reads the result of a duplicate from the store, so it cannot be a reference",
            help,
        ));
    }
    if let Some((span, OnCancel::Finish)) = options.on_cancel
        && options.tx.is_none()
        && let Some(argument) = function.borrowed()
    {
        let name = &function.sig.ident;
        let help = match argument.as_str() {
            "self" => "write `self: Arc<Self>`, or `self`".to_owned(),
            argument => format!("take `{argument}` by value or in an `Arc`"),
        };
        errors.push(error(
            span,
            format_args!(
                "with `on_cancel = \"finish\"` the body of `{name}` may outlive its caller, but it borrows `{argument}`"
            ),
            help,
        ));
    }
}

fn check_context(options: &Options, function: &Function, errors: &mut Errors) {
    let names = function.names();
    let is_taken = |word: &str| names.iter().any(|name| *name == word);
    if let Some(context) = &options.context
        && is_taken(&context.to_string())
    {
        let message = format_args!(
            "`{context}` is already an argument of `{}`",
            function.sig.ident
        );
        let free = ["cx", "call", "this_call"]
            .into_iter()
            .find(|word| !is_taken(word));
        let free = free.unwrap_or("another_name");
        let help = format_args!("choose another name for the context, as in `context = {free}`");
        errors.push(error(context.span(), message, help));
    }
}

fn check_replay(options: &Options, errors: &mut Errors) {
    match (options.replay, &options.replay_err) {
        (Some(span), _) if options.release == Some(Release::Always) => errors.push(error(
            span,
            "`replay` cannot be combined with `release = true`, which frees the key at once",
            "leave `release` out, or write `replay = false`",
        )),
        // A `replay` with a mistake is also `None`, and was already reported.
        (None, Some((span, _))) if errors.is_empty() => errors.push(error(
            *span,
            "`replay_err` needs `replay = true`",
            "write `replay = true` as well, or leave `replay_err` out",
        )),
        _ => {}
    }
}

fn check_token(options: &Options, errors: &mut Errors) {
    // An option with a mistake is also `None`, and was already reported.
    let has_no_errors = errors.is_empty();
    let Some(span) = options.token.as_ref().and(options.written("token")) else {
        let alone = ["operation", "give_back"]
            .into_iter()
            .filter(|_| has_no_errors);
        for (name, span) in alone.filter_map(|name| Some((name, options.written(name)?))) {
            let message = format_args!("`{name}` needs `token`");
            let help = format_args!(
                "write `token = \"form.token, user_id\"` as well, or leave `{name}` out"
            );
            errors.push(error(span, message, help));
        }
        return;
    };
    if options.operation().is_none() && has_no_errors {
        errors.push(error(
            span,
            "`token` needs the operation that the token was issued for",
            "write `operation = \"orders.submit\"`, or `name = \"orders.submit\"`",
        ));
    }
    if options.release == Some(Release::Never)
        && let Some(span) = options.give_back
    {
        errors.push(error(
            span,
            "`give_back` cannot be combined with `release = false`, which keeps the key taken",
            "leave `release` out, or write `give_back = false`",
        ));
    }
    if let Some(span) = options.written("when") {
        errors.push(error(
            span,
            "`when` cannot be combined with `token`: an unguarded call would run its body without a token",
            "leave `when` out, or write a second function with `token` for the calls that have a token",
        ));
    }
    if options.tx.is_some() {
        errors.push(error(
            span,
            "`token` cannot be combined with `tx`, whose transaction may be rolled back after the token is used",
            "write `token` on the function that begins the transaction",
        ));
    }
}

fn check_fence(options: &Options, errors: &mut Errors) {
    let Some(span) = options.fence else {
        return;
    };
    if options.tx.is_some() {
        errors.push(error(
            span,
            "`fence` cannot be combined with `tx`, whose transaction orders the writes of its calls",
            "leave `fence` out",
        ));
    // A `context` with a mistake is also `None`, and was already reported.
    } else if options.context.is_none() && errors.is_empty() {
        errors.push(error(
            span,
            "`fence` needs `context`, which has the number",
            "write `context = cx` as well, and send `cx.fence()` with each write of the body",
        ));
    }
}

fn check_also(options: &Options, errors: &mut Errors) {
    if options.also.is_empty() {
        return;
    }
    check_parts_of_also(options, errors);
    let mut against = |name, why, help| {
        if let Some(span) = options.written(name) {
            let message = format_args!("`also` cannot be combined with `{name}`, {why}");
            errors.push(error(span, message, help));
        }
    };
    against(
        "tx",
        "whose transaction holds the key",
        "leave `also` out, and lock the rows of the second key in the transaction",
    );
    against(
        "token",
        "which is redeemed for one key",
        "write `token` on a function that calls this one, or leave `also` out",
    );
    against(
        "fence",
        "which numbers the claims of one key",
        "leave `fence` or `also` out",
    );
    if let Some(OnStoreError::Run) = options.on_store_error {
        against(
            "on_store_error",
            "because without the store no call knows that all of its keys are free",
            "leave `on_store_error` out",
        );
    }
    // A `release` with a mistake is also `None`, and was already reported.
    let needs_release = options.tx.is_none() && options.release != Some(Release::Always);
    if needs_release
        && errors.is_empty()
        && let Some(span) = options.written("also")
    {
        errors.push(error(
            span,
            "`also` needs `release = true`, because no end of the call is stored under a further key",
            "write `release = true` as well, or leave `also` out",
        ));
    }
}

/// Reports a further key that has more or fewer parts than `key`.
fn check_parts_of_also(options: &Options, errors: &mut Errors) {
    if let Some(key) = &options.key
        && let Some(also) = options.also.iter().find(|also| also.len() != key.len())
        && let Some(span) = options.written("also")
    {
        let count = |key: &Key| match key.len() {
            1 => "1 part".to_owned(),
            len => format!("{len} parts"),
        };
        let message = format_args!(
            "`also` has {}, and `key` has {}: no other call would have this further key as its key",
            count(also),
            count(key)
        );
        let help = "write all parts of the other call's key, as in `key = \"tenant, from\", also = \"tenant, to\"`";
        errors.push(error(span, message, help));
    }
}

fn check_begin(options: &Options, errors: &mut Errors) {
    // An option with a mistake is also `None`, and was already reported.
    if !errors.is_empty() {
        return;
    }
    let Some(span) = options.written("begin") else {
        if let Some(span) = options.written("retry") {
            errors.push(error(
                span,
                "`retry` needs `begin`: only a transaction that the guard begins can be repeated",
                "write `begin = pool` as well, or leave `retry` out",
            ));
        }
        return;
    };
    if options.tx.is_none() {
        errors.push(error(
            span,
            "`begin` needs `tx`, the name of the transaction in the body",
            "write `tx = tx` as well",
        ));
    }
    if let Some((span, _)) = &options.replay_err {
        errors.push(error(
            *span,
            "`replay_err` cannot be combined with `begin`, which rolls back after an error",
            "leave `replay_err` out",
        ));
    }
}

fn check_begun(options: &Options, tx: &Ident, function: &Function, errors: &mut Errors) {
    if function.names().contains(&tx.to_string()) {
        let message = format_args!(
            "`{tx}` is an argument of `{}`, but with `begin` the guard gives the body its transaction",
            function.sig.ident
        );
        let help = "remove the argument, or leave `begin` out and let the caller commit";
        errors.push(error(tx.span(), message, help));
    }
    if options.repeats()
        && let Some(receiver) = function.receiver_of_one_run()
    {
        errors.push(error(
            receiver.self_token.span,
            "a second run of the body cannot use this `self`, which the first run moves",
            "write `&self`, or `retry = false`",
        ));
    }
}

fn check_tx(options: &Options, errors: &mut Errors) {
    if options.release == Some(Release::Always)
        && let Some(span) = options.written("release")
    {
        errors.push(error(
            span,
            "`release = true` cannot be combined with `tx`, which commits the key with the work",
            "leave `release` out, or write `release = false`",
        ));
    }
    for name in ["lease", "at_least", "renew", "on_cancel", "on_lease_lost"] {
        if let Some(span) = options.written(name) {
            errors.push(error(
                span,
                format_args!(
                    "`{name}` cannot be combined with `tx`, where the transaction holds the key"
                ),
                format_args!("leave `{name}` out"),
            ));
        }
    }
    if let Some(span) = options.written("hold_err") {
        errors.push(error(
            span,
            "`hold_err` cannot be combined with `tx`, whose rollback frees the key",
            "write `hold_err` on the function that commits the transaction, or leave it out",
        ));
    }
    if let Some(span) = options.written("on_store_error") {
        errors.push(error(
            span,
            "`on_store_error` cannot be combined with `tx`, which uses no store",
            "leave `on_store_error` out",
        ));
    }
    if let Some(span) = options.written("settle") {
        errors.push(error(
            span,
            "`settle` cannot be combined with `tx`, which commits the end of the call with the work",
            "leave `settle` out",
        ));
    }
}

fn check_transaction(tx: &Ident, function: &Function, errors: &mut Errors) {
    let name = tx.to_string();
    let names = function.names();
    if !names.contains(&name) {
        return errors.push(key::unknown("tx", tx, &name, function, &names));
    }
    let (message, help) = match function.argument(tx) {
        Some(ty) if function::is_mutable_reference(ty) || function::is_shared_reference(ty) => {
            return;
        }
        Some(_) => (
            format!("`{name}` must be a reference, because the caller commits the transaction"),
            format!(
                "write `{name}: &mut Transaction<'_, Postgres>` (or `MySql`, `Sqlite`) and pass the transaction of `pool.begin().await?`, or a \
                 reference to the transaction of another library, as in `{name}: &DatabaseTransaction`"
            ),
        ),
        None => (
            format!("`{name}` must be a plain argument"),
            "take the transaction without `mut` and patterns, as in `tx: &mut Transaction<'_, Postgres>`".to_owned(),
        ),
    };
    errors.push(error(tx.span(), message, help));
}
