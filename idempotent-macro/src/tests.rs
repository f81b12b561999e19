#![allow(clippy::unwrap_used)]

use proc_macro2::TokenStream;
use quote::quote;
use syn::{File, Item, LitStr};

use crate::duration::millis;
use crate::error::{List, closest};
use crate::expand::expand;
use crate::options::NAMES;

mod expand;
mod properties;

#[test]
fn durations_are_whole_numbers_with_units() {
    // The runtime tests the durations in its settings with the same table.
    for line in include_str!("../tests/durations.txt").lines() {
        let (text, expected) = line.rsplit_once(' ').unwrap();
        let (text, expected) = (text.trim_matches('"'), expected.parse().ok());
        assert_eq!(millis(text), expected, "{text:?}");
    }
}

#[test]
fn the_proposed_word_differs_by_a_typing_mistake() {
    let options = ["key", "ttl", "release", "on_cancel", "on_duplicate"];
    let table = [
        ("tll", Some("ttl")),
        ("relese", Some("release")),
        ("realese", Some("release")),
        ("on_cancle", Some("on_cancel")),
        ("onduplicate", Some("on_duplicate")),
        ("keys", Some("key")),
        ("color", None),
        ("", None),
    ];
    for (word, expected) in table {
        assert_eq!(closest(word, &options), expected, "{word:?}");
    }
}

#[test]
fn a_list_reads_as_a_sentence() {
    assert_eq!(List(&["a"], " and ").to_string(), "`a`");
    assert_eq!(List(&["a", "b"], " or ").to_string(), "`a` or `b`");
    assert_eq!(
        List(&["a", "b", "c"], " and ").to_string(),
        "`a`, `b` and `c`"
    );
}

#[test]
fn an_option_that_resembles_none_is_answered_with_all_options() {
    let function = quote!(
        async fn pay(id: u64) -> R {}
    );
    let options = quote!(key = "id", ttl = "30s", color = "red");
    let expanded = expand(options, &function).to_string();
    let all = format!("help: the options are {}", List(NAMES, " and "));
    assert!(expanded.contains(&all), "{expanded}");
}

#[test]
fn every_mistake_of_an_attribute_is_reported_once() {
    let function = quote!(
        async fn pay(id: u64) -> R {
            body
        }
    );
    let count = |options: TokenStream| {
        let expanded = expand(options, &function).to_string();
        assert!(expanded.contains("fn pay"), "{expanded}");
        expanded.matches("compile_error").count()
    };
    assert_eq!(count(quote!()), 2);
    assert_eq!(count(quote!(key = "id")), 1);
    assert_eq!(count(quote!(tll = "30s", relese = true, color)), 3);
    assert_eq!(count(quote!(key = "idd, ib", ttl = 30)), 3);
    assert_eq!(count(quote!(key = "id" ttl = "30")), 2);
    assert_eq!(count(quote!(key = , ttl = "30s")), 1);
    assert_eq!(count(quote!(key("id"), ttl = "30s")), 1);
    assert_eq!(
        count(quote!(
            key = "id",
            ttl = "30s",
            token = token,
            on_duplicate = |a, b| c
        )),
        1
    );
    assert_eq!(count(quote!(key = "id", ttl = "30s",)), 0);
}

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
            "`wait = \"0s\"` is zero\nhelp: write a duration longer than zero, as in `wait = \"30s\"`",
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

#[test]
fn a_key_part_is_checked_for_option_only_without_when() {
    let function = quote!(
        async fn pay(id: Option<RequestId>) -> R {
            body
        }
    );
    let parts = |options: TokenStream| {
        let expanded = expand(
            quote!(key = id, ttl = "1d", payload = id #options),
            &function,
        );
        let expanded = expanded.to_string();
        (
            expanded.matches("checked ()").count(),
            expanded.matches("(& id)").count(),
        )
    };
    assert_eq!(parts(quote!()), (1, 2));
    assert_eq!(parts(quote!(, when = id.is_some())), (0, 2));
}

#[test]
fn the_error_for_a_token_without_arguments_says_to_leave_it_out() {
    let function = quote!(
        async fn sweep() -> R {
            body
        }
    );
    let options = quote!(token = (token, ()), name = "sweep", ttl = "1d");
    assert_eq!(
        mistakes(options, &function),
        [
            "`sweep` has no argument named `token`\nhelp: the function has no arguments: add the token and its user as arguments, or leave `token` out"
        ]
    );
}

#[test]
fn a_token_can_be_combined_with_every_option_but_tx() {
    let function = quote!(
        async fn submit(user_id: u64, form: Form) -> R {
            body
        }
    );
    for options in [
        quote!(token = "form.token, user_id", operation = "orders.submit"),
        quote!(token = (form.token(), user_id, 7), name = "orders.submit"),
        quote!(token = (form.token, ()), name = "orders.submit"),
        quote!(
            token = "form.token, user_id",
            name = "o",
            give_back = true,
            release = true
        ),
        quote!(
            token = "form.token, user_id",
            name = "o",
            operation = "p",
            key = user_id,
            replay = true
        ),
        quote!(
            token = "form.token, user_id",
            name = "o",
            on_cancel = "finish",
            wait = "2s",
            release = false
        ),
        quote!(
            token = "form.token, user_id",
            name = "o",
            on_store_error = "run",
            payload = "form.note"
        ),
    ] {
        let none = mistakes(quote!(ttl = "1d", #options), &function);
        assert!(none.is_empty(), "{none:?}");
    }
}

#[test]
fn the_error_for_a_payload_without_arguments_says_to_leave_it_out() {
    let function = quote!(
        async fn sweep() -> R {
            body
        }
    );
    assert_eq!(
        mistakes(quote!(key = (), ttl = "1d", payload = id), &function),
        [
            "`sweep` has no argument named `id`\nhelp: the function has no arguments: leave `payload` out"
        ]
    );
}

#[test]
fn rust_analyzer_sees_the_names_of_an_unfinished_payload() {
    let function = quote!(
        async fn pay(user_id: u64, amount: u64) -> R {
            body
        }
    );
    let options = quote!(key = user_id, ttl = "1d", payload = amo);
    let expanded = expand(options, &function).to_string();
    assert!(expanded.contains("_ = (& amo ,)"), "{expanded}");
}

#[test]
fn replay_can_be_combined_with_each_release_that_does_not_free_the_key() {
    let function = quote!(
        async fn pay(id: u64) -> R {
            body
        }
    );
    for options in [
        quote!(replay = true),
        quote!(replay = true, release = false),
        quote!(replay = true, release = "on_error"),
        quote!(replay = false, release = true),
        quote!(replay_err = |error| error.is_final(), replay = true),
    ] {
        let none = mistakes(quote!(key = id, ttl = "1d", #options), &function);
        assert!(none.is_empty(), "{none:?}");
    }
}

#[test]
fn a_named_endpoint_registers_a_policy_without_expressions() {
    let function = quote!(
        async fn pay(id: u64) -> R {
            body
        }
    );
    let table = [
        (quote!(lease = "10s", renew = "1h", wait = "2s"), "Some"),
        (quote!(renew = false), "Some"),
        (quote!(lease = lease()), "None"),
        (quote!(renew = cap()), "None"),
        (quote!(wait = some_time()), "None"),
    ];
    for (options, policy) in table {
        let expanded = |name: TokenStream| {
            expand(quote!(key = id, ttl = "1d", #options #name), &function).to_string()
        };
        let register =
            format!("register ! {{ \"orders.pay\" , :: core :: option :: Option :: {policy}");
        let named = expanded(quote!(, name = "orders.pay"));
        assert_eq!(named.matches(&register).count(), 1, "{named}");
        assert_eq!(expanded(quote!()).matches("register").count(), 0);
    }
}

#[test]
fn a_key_of_expressions_is_left_to_rustc() {
    let function = quote!(
        async fn pay(id: u64, self_: S) -> R {
            body
        }
    );
    for key in [
        quote!(()),
        quote!(id),
        quote!((id)),
        quote!((
            id,
            "pay",
            7,
            LIMIT,
            Unit,
            one(id),
            shop::two(id),
            { three },
            format!("{four}")
        )),
        quote!((&id, *id, id as u32, id.a.0.1, self_.tenant()[0], (id))),
    ] {
        let expanded = expand(quote!(key = #key, ttl = "1s"), &function).to_string();
        assert!(!expanded.contains("compile_error"), "{expanded}");
    }
}

/// The texts of the reported errors.
fn mistakes(options: TokenStream, function: &TokenStream) -> Vec<String> {
    let expanded: File = syn::parse2(expand(options, function)).unwrap();
    let texts = expanded.items.iter().filter_map(|item| match item {
        Item::Macro(item) => Some(item.mac.parse_body::<LitStr>().unwrap().value()),
        _ => None,
    });
    texts.collect()
}
