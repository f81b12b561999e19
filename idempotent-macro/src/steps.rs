//! Steps in the body of a function whose steps cannot be recorded.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};

use crate::error::{Errors, error};
use crate::function::Function;
use crate::options::Options;
use crate::value::Release;

/// Reports each step of a body with `tx`, or with a `release` other than `"on_error"`. A function that gets the context of the body is not
/// seen: its steps are refused when they run.
pub fn check(options: &Options, function: &Function, errors: &mut Errors) {
    let Some(context) = &options.context else {
        return;
    };
    let (why, help) = match options.release {
        _ if options.tx.is_some() => (
            "with `tx`, whose rollback undoes the work of every step",
            "write the work of the database without `step`; for an effect elsewhere use the outbox, \
             https://docs.rs/idempotence/latest/idempotence/guide/sql/index.html#an-effect-elsewhere-the-outbox",
        ),
        Some(Release::Always) => (
            "with `release = true`: a later equal call is a new intent, which runs every step again",
            "leave `release` out",
        ),
        Some(Release::Never) => (
            "with `release = false`, where no equal call runs before its `ttl` is over",
            "leave `release` out",
        ),
        _ => return,
    };
    let mut steps = Vec::new();
    find(&function.body, context, &mut steps);
    for step in steps {
        let message = format_args!("`{context}.step` cannot be combined {why}");
        errors.push(error(step, message, help));
    }
}

/// Finds `cx.step` in a body, also in its closures and macros.
fn find(body: &TokenStream, context: &Ident, steps: &mut Vec<Span>) {
    let mut last = [None, None];
    for token in body.clone() {
        match (&last, &token) {
            (_, TokenTree::Group(group)) => find(&group.stream(), context, steps),
            (
                [
                    Some(TokenTree::Ident(receiver)),
                    Some(TokenTree::Punct(point)),
                ],
                TokenTree::Ident(method),
            ) if receiver == context && point.as_char() == '.' && method == "step" => {
                steps.push(method.span());
            }
            _ => {}
        }
        let [_, before] = last;
        last = [before, Some(token)];
    }
}
