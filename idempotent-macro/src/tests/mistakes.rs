//! What the errors say.

use proc_macro2::TokenStream;
use quote::quote;

use super::mistakes;
use crate::expand::expand;

#[test]
fn an_error_says_what_is_wrong_and_what_to_write() {
    let function = quote!(
        async fn pay(user_id: u64, amount: u64) -> R {
            body
        }
    );
    let table = [
        (
            quote!(payload = ""),
            "`payload` is empty\nhelp: leave `payload` out",
        ),
        (
            quote!(payload = "amount user_id"),
            "`payload` is not a list of arguments: expected `,`\nhelp: name arguments and their fields, with commas between them, as in `payload = \"user_id, request.id\"`",
        ),
        (
            quote!(payload = "#amount, #user.id"),
            "`payload` has a `#`\nhelp: write arguments without it, as in `payload = \"amount, user.id\"`",
        ),
        (
            quote!(payload = "r#type #amount"),
            "`payload` is not a list of arguments: expected `,`\nhelp: name arguments and their fields, with commas between them, as in `payload = \"user_id, request.id\"`",
        ),
        (
            quote!(payload = "r#type, #amount"),
            "`payload` has a `#`\nhelp: write arguments without it, as in `payload = \"r#type, amount\"`",
        ),
        (
            quote!(renew = "0s"),
            "`renew = \"0s\"` is zero\nhelp: write `renew = false`, or write a duration longer than zero, as in `renew = \"30s\"`",
        ),
        (
            quote!(payload = "amount.abs()"),
            "`amount . abs ()` is neither an argument nor a field of one\nhelp: write expressions without quotes, as in `payload = (user_id, request.id())`",
        ),
        (
            quote!(payload = "amuont"),
            "`pay` has no argument named `amuont`\nhelp: did you mean `amount`?",
        ),
        (
            quote!(payload = (user_id, currency)),
            "`pay` has no argument named `currency`\nhelp: its arguments are `user_id` and `amount`",
        ),
        (
            quote!(replay = "true"),
            "`replay` must be `true` or `false`, not `\"true\"`\nhelp: write `replay = true`",
        ),
        (
            quote!(replay = REPLAY),
            "`replay` must be `true` or `false`, not `REPLAY`\nhelp: write one of these in the attribute itself, as in `replay = true`",
        ),
        (
            quote!(replay = true, release = true),
            "`replay` cannot be combined with `release = true`, which frees the key at once\nhelp: leave `release` out, or write `replay = false`",
        ),
        (
            quote!(replay_err = is_final),
            "`replay_err` needs `replay = true`\nhelp: write `replay = true` as well, or leave `replay_err` out",
        ),
        (
            quote!(replay = false, replay_err = |error| error.is_final()),
            "`replay_err` needs `replay = true`\nhelp: write `replay = true` as well, or leave `replay_err` out",
        ),
        (
            quote!(replay = 1, replay_err = is_final),
            "`replay` must be `true` or `false`, not `1`\nhelp: write one of these in the attribute itself, as in `replay = true`",
        ),
        (
            quote!(wait = "0s"),
            "`wait = \"0s\"` is zero\nhelp: leave `wait` out, or write a duration longer than zero, as in `wait = \"30s\"`",
        ),
        (
            quote!(wait = 2),
            "`wait = 2` has no unit\nhelp: write `wait = \"2s\"` if you mean seconds; the units are `ms`, `s`, `m`, `h` and `d`",
        ),
        (
            quote!(success = true),
            "`success` must be a function that says whether an outcome is a success\nhelp: write a closure or the name of a function, as in `success = |outcome| outcome.is_ok()`",
        ),
        (
            quote!(payload = (1, "a")),
            "`payload` is a constant, so it is equal in all calls\nhelp: name the arguments that a duplicate must have in common with the first call, as in `payload = \"amount\"`, or leave `payload` out",
        ),
        (
            quote!(payload = amount, user_id),
            "unknown option `user_id`\nhelp: write several parts in one string, as in `payload = \"user_id, file_md5\"`",
        ),
        (
            quote!(disabled = true),
            "unknown option `disabled`\nhelp: `disabled` is a setting: write it into the file of the settings or an environment variable, so that it can change without a new build",
        ),
        (
            quote!(replai = true),
            "unknown option `replai`\nhelp: did you mean `replay`?",
        ),
    ];
    for (options, text) in table {
        let mistakes = mistakes(quote!(key = "user_id", ttl = "1d", #options), &function);
        assert_eq!(mistakes, [text], "{options}");
    }
}

#[test]
fn a_second_attribute_of_this_crate_is_an_error() {
    let twice = |attribute: TokenStream, krate: TokenStream| {
        let function = quote!(#attribute async fn pay(id: u64) -> R { body });
        mistakes(quote!(key = "id", ttl = "1d" #krate), &function)
    };
    let error = "`pay` has `#[idempotent]` twice\nhelp: keep one, with the parts of both keys, as in \
                 `key = \"user_id, file_md5\"`; for two guards write two functions, where one calls the other";
    for attribute in [
        quote!(#[idempotent]),
        quote!(#[idempotent(key = "id", ttl = "1d")]),
        quote!(#[idempotence::idempotent]),
        quote!(#[::idempotence::idempotent]),
        quote!(#[idempotent_macro::idempotent]),
    ] {
        assert_eq!(twice(attribute.clone(), quote!()), [error], "{attribute}");
    }
    let renamed = || quote!(#[once::idempotent]);
    assert_eq!(twice(renamed(), quote!(, crate = ::once)), [error]);
    for attribute in [
        renamed(),
        quote!(#[other::idempotent]),
        quote!(#[idempotence::other]),
    ] {
        assert!(twice(attribute.clone(), quote!()).is_empty(), "{attribute}");
    }
    // The upper attribute is expanded first. The lower one finds its expansion, whatever the paths are.
    let expanded = expand(
        quote!(key = "id", ttl = "1d"),
        &quote!(
            #[once::idempotent]
            async fn pay(id: u64) -> R {
                body
            }
        ),
    );
    let mistakes = mistakes(quote!(key = "id", ttl = "1d"), &expanded);
    assert_eq!(mistakes, [error]);
}

#[test]
fn an_error_with_a_token_says_what_is_wrong_and_what_to_write() {
    let function = quote!(
        async fn submit(user_id: u64, form: Form, tx: &mut Transaction) -> R {
            body
        }
    );
    let table = [
        (
            quote!(token = "form.token", name = "orders.submit"),
            "`token` does not name the user that the token was issued to\nhelp: name the user after the token, as in `token = \"form.token, user_id\"`; for a token without a user write `token = (form.token, ())`",
        ),
        (
            quote!(token = (), name = "orders.submit"),
            "`token` does not name the user that the token was issued to\nhelp: name the user after the token, as in `token = \"form.token, user_id\"`; for a token without a user write `token = (form.token, ())`",
        ),
        (
            quote!(token = "", name = "orders.submit"),
            "`token` is empty\nhelp: add the token and its user as arguments, or leave `token` out",
        ),
        (
            quote!(token = "form.token, ()", name = "orders.submit"),
            "`()` is neither an argument nor a field of one\nhelp: write expressions without quotes, as in `token = (form.token, user_id)`",
        ),
        (
            quote!(token = "form.token, usr_id", name = "orders.submit"),
            "`submit` has no argument named `usr_id`\nhelp: did you mean `user_id`?",
        ),
        (
            quote!(token = "form.token, user_id"),
            "`token` needs the operation that the token was issued for\nhelp: write `operation = \"orders.submit\"`, or `name = \"orders.submit\"`",
        ),
        (
            quote!(token = "form.token, user_id", operation = OPERATION),
            "`operation` must be a string in quotes\nhelp: write the text in the attribute itself, as in `operation = \"orders.submit\"`",
        ),
        (
            quote!(token = "form.token, user_id", operation = "a b"),
            "`operation` contains the character ' '\nhelp: use `A-Z a-z 0-9 . _ -`, as in `operation = \"orders.submit\"`",
        ),
        (
            quote!(
                token = "form.token, user_id",
                operation = "o",
                give_back = "true"
            ),
            "`give_back` must be `true` or `false`, not `\"true\"`\nhelp: write `give_back = true`",
        ),
        (
            quote!(
                token = "form.token, user_id",
                operation = "o",
                give_back = BACK
            ),
            "`give_back` must be `true` or `false`, not `BACK`\nhelp: write one of these in the attribute itself, as in `give_back = true`",
        ),
        (
            quote!(key = user_id, operation = "orders.submit"),
            "`operation` needs `token`\nhelp: write `token = \"form.token, user_id\"` as well, or leave `operation` out",
        ),
        (
            quote!(key = user_id, give_back = false),
            "`give_back` needs `token`\nhelp: write `token = \"form.token, user_id\"` as well, or leave `give_back` out",
        ),
        (
            quote!(token = "form.token, user_id", name = "o", tx = tx),
            "`token` cannot be combined with `tx`, whose transaction may be rolled back after the token is used\nhelp: write `token` on the function that begins the transaction",
        ),
    ];
    for (options, text) in table {
        let mistakes = mistakes(quote!(ttl = "1d", #options), &function);
        assert_eq!(mistakes, [text], "{options}");
    }
}

#[test]
fn an_error_with_fence_says_what_is_wrong_and_what_to_write() {
    let function = quote!(
        async fn pay(tx: &mut Tx, user_id: u64) -> R {
            body
        }
    );
    let table = [
        (
            quote!(fence = true),
            "`fence` needs `context`, which has the number\nhelp: write `context = cx` as well, and send `cx.fence()` with each write of the body",
        ),
        (
            quote!(fence = true, context = cx, tx = tx),
            "`fence` cannot be combined with `tx`, whose transaction orders the writes of its calls\nhelp: leave `fence` out",
        ),
        (
            quote!(fence = "yes", context = cx),
            "`fence` must be `true` or `false`, not `\"yes\"`\nhelp: write one of these in the attribute itself, as in `fence = true`",
        ),
    ];
    for (options, text) in table {
        let options = quote!(key = user_id, ttl = "1d", #options);
        assert_eq!(mistakes(options.clone(), &function), [text], "{options}");
    }
    for options in [quote!(fence = false), quote!(fence = true, context = cx)] {
        let none = mistakes(quote!(key = user_id, ttl = "1d", #options), &function);
        assert!(none.is_empty(), "{none:?}");
    }
}

#[test]
fn an_error_with_when_says_what_is_wrong_and_what_to_write() {
    let function = quote!(
        async fn pay(id: Option<RequestId>, token: String) -> R {
            body
        }
    );
    let what = "`when` must be an expression of type `bool` that says which calls are guarded\nhelp: write";
    let table = [
        (
            quote!(key = id, when = "id.is_some()"),
            format!("{what} it without quotes, as in `when = id.is_some()`"),
        ),
        (
            quote!(key = id, when = true),
            "`when = true` guards every call\nhelp: leave `when` out".to_owned(),
        ),
        (
            quote!(key = id, when = false),
            "`when = false` guards no call\nhelp: remove the attribute, or use the setting `disabled` to run unguarded for a while".to_owned(),
        ),
        (
            quote!(key = id, when = 1),
            format!("{what} an expression over the arguments, as in `when = idempotency_key.is_some()`, or leave `when` out"),
        ),
        (
            quote!(token = "token, id", name = "pay", when = id.is_some()),
            "`when` cannot be combined with `token`: an unguarded call would run its body without a token\nhelp: leave `when` out, or write a second function with `token` for the calls that have a token".to_owned(),
        ),
    ];
    for (options, text) in table {
        let mistakes = mistakes(quote!(ttl = "1d", #options), &function);
        assert_eq!(mistakes, [text], "{options}");
    }
}
