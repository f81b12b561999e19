#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parse;
use syn::{Attribute, File, ImplItem, Item, LitStr, TraitItem};

use crate::duration::millis;
use crate::error::{List, closest};
use crate::expand::expand;

mod properties;

#[test]
fn durations_are_whole_numbers_with_units() {
    // The runtime reads its settings by the same table.
    for line in include_str!("../tests/durations.txt").lines() {
        let (text, expected) = line.rsplit_once(' ').unwrap();
        let (text, expected) = (text.trim_matches('"'), expected.parse().ok());
        assert_eq!(millis(text), expected, "{text:?}");
    }
}

#[test]
fn the_closest_word_is_a_typing_mistake_away() {
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
fn a_mistake_reads_as_what_is_wrong_and_what_to_write() {
    let function = quote!(
        async fn pay(user_id: u64, amount: u64) -> R {
            body
        }
    );
    let table = [
        (
            quote!(payload = ""),
            "`payload` names no argument\nhelp: leave `payload` out",
        ),
        (
            quote!(payload = "amount user_id"),
            "`payload` does not parse: expected `,`\nhelp: a payload is a list of arguments and their fields, as in `payload = \"user_id, request.id\"`",
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
            "`pay` has no argument named `currency`\nhelp: it takes `user_id` and `amount`",
        ),
        (
            quote!(replay = "true"),
            "expected `true` or `false`\nhelp: write `true` and `false` without quotes",
        ),
        (
            quote!(replay = REPLAY),
            "expected `true` or `false`\nhelp: it says whether the result is stored, and must be known when this is compiled",
        ),
        (
            quote!(replay = true, release = true),
            "`replay` does not go with `release = true`, which frees the key at once\nhelp: leave `release` out, or write `replay = false`",
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
            "expected `true` or `false`\nhelp: it says whether the result is stored, and must be known when this is compiled",
        ),
        (
            quote!(wait = "0s"),
            "`0s` is no time at all\nhelp: write a duration longer than zero, as in `ttl = \"30s\"`",
        ),
        (
            quote!(wait = 2),
            "a duration needs a unit\nhelp: write whole numbers with a unit of `ms`, `s`, `m`, `h` or `d`, as in `ttl = \"30s\"` or `ttl = \"1h30m\"`",
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
fn a_mistake_with_a_token_reads_as_what_is_wrong_and_what_to_write() {
    let function = quote!(
        async fn submit(user_id: u64, form: Form, tx: &mut Transaction) -> R {
            body
        }
    );
    let table = [
        (
            quote!(token = "form.token", name = "orders.submit"),
            "`token` does not say whom the token was issued to\nhelp: name the user beside it, as in `token = \"form.token, user_id\"`; for one that anybody may use write `token = (form.token, ())`",
        ),
        (
            quote!(token = (), name = "orders.submit"),
            "`token` does not say whom the token was issued to\nhelp: name the user beside it, as in `token = \"form.token, user_id\"`; for one that anybody may use write `token = (form.token, ())`",
        ),
        (
            quote!(token = "", name = "orders.submit"),
            "`token` names no argument\nhelp: take the token and its user as arguments, or leave `token` out",
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
            "`token` does not say what the token was issued for\nhelp: write `operation = \"orders.submit\"`, or give the function a `name`",
        ),
        (
            quote!(token = "form.token, user_id", operation = OPERATION),
            "the name of an operation is a string\nhelp: write `operation = \"orders.submit\"`",
        ),
        (
            quote!(token = "form.token, user_id", operation = "a b"),
            "' ' cannot be in the name of an operation\nhelp: use `A-Z a-z 0-9 . _ -`, as in `operation = \"orders.submit\"`",
        ),
        (
            quote!(
                token = "form.token, user_id",
                operation = "o",
                give_back = "true"
            ),
            "expected `true` or `false`\nhelp: write `true` and `false` without quotes",
        ),
        (
            quote!(
                token = "form.token, user_id",
                operation = "o",
                give_back = BACK
            ),
            "expected `true` or `false`\nhelp: it says whether the token is given back, and must be known when this is compiled",
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
            "`token` does not go with `tx`, whose transaction may be rolled back after the token is used\nhelp: put `token` on the function outside, which begins the transaction",
        ),
    ];
    for (options, text) in table {
        let mistakes = mistakes(quote!(ttl = "1d", #options), &function);
        assert_eq!(mistakes, [text], "{options}");
    }
}

#[test]
fn a_mistake_with_when_reads_as_what_is_wrong_and_what_to_write() {
    let function = quote!(
        async fn pay(id: Option<RequestId>, token: String) -> R {
            body
        }
    );
    let what =
        "`when` is an expression of type `bool` that says which calls are guarded\nhelp: write";
    let table = [
        (
            quote!(key = id, when = "id.is_some()"),
            format!("{what} it without quotes, as in `when = id.is_some()`"),
        ),
        (
            quote!(key = id, when = true),
            format!("{what} one over the arguments, as in `when = idempotency_key.is_some()`, or leave `when` out"),
        ),
        (
            quote!(token = "token, id", name = "pay", when = id.is_some()),
            "`when` does not go with `token`: a call that is not guarded would run its body without a token\nhelp: leave `when` out, or put `token` on a function of its own, for the calls that have one".to_owned(),
        ),
    ];
    for (options, text) in table {
        let mistakes = mistakes(quote!(ttl = "1d", #options), &function);
        assert_eq!(mistakes, [text], "{options}");
    }
}

#[test]
fn a_part_of_a_key_is_checked_unless_when_is_there() {
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
fn a_token_of_a_function_without_arguments_is_to_be_left_out() {
    let function = quote!(
        async fn sweep() -> R {
            body
        }
    );
    let options = quote!(token = (token, ()), name = "sweep", ttl = "1d");
    assert_eq!(
        mistakes(options, &function),
        [
            "`sweep` has no argument named `token`\nhelp: it takes none; take the token and its user as arguments, or leave `token` out"
        ]
    );
}

#[test]
fn a_token_goes_with_every_option_but_tx() {
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
fn a_payload_of_a_function_without_arguments_is_to_be_left_out() {
    let function = quote!(
        async fn sweep() -> R {
            body
        }
    );
    assert_eq!(
        mistakes(quote!(key = (), ttl = "1d", payload = id), &function),
        ["`sweep` has no argument named `id`\nhelp: it takes none; leave `payload` out"]
    );
}

#[test]
fn an_unfinished_payload_is_shown_to_rust_analyzer() {
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
fn replay_goes_with_every_release_that_keeps_the_key() {
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
fn the_policy_of_a_named_endpoint_is_registered_if_it_is_known() {
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
        (quote!(wait = patience()), "None"),
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
fn an_expression_that_cannot_be_judged_is_left_to_rustc() {
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

#[test]
fn expansions_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/expand");
    let mut inputs: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_string_lossy().ends_with(".expanded.rs"))
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty());
    for input in inputs {
        let source = fs::read_to_string(&input).unwrap();
        let expanded = prettyplease::unparse(&expand_file(syn::parse_file(&source).unwrap()));
        let recorded = input.with_extension("expanded.rs");
        if std::env::var_os("UPDATE_EXPANDED").is_some() {
            fs::write(&recorded, &expanded).unwrap();
        }
        let expected = fs::read_to_string(&recorded).unwrap_or_default();
        assert!(
            expected == expanded,
            "{} differs: look at it after `UPDATE_EXPANDED=1 cargo test -p idempotent-macro`",
            recorded.display()
        );
    }
}

/// The texts of the mistakes that are reported.
fn mistakes(options: TokenStream, function: &TokenStream) -> Vec<String> {
    let expanded: File = syn::parse2(expand(options, function)).unwrap();
    let texts = expanded.items.iter().filter_map(|item| match item {
        Item::Macro(item) => Some(item.mac.parse_body::<LitStr>().unwrap().value()),
        _ => None,
    });
    texts.collect()
}

fn expand_file(mut file: File) -> File {
    for item in &mut file.items {
        match item {
            Item::Fn(function) => {
                if let Some(options) = options(&mut function.attrs) {
                    *item = expanded(options, function);
                }
            }
            Item::Impl(block) => {
                for item in &mut block.items {
                    if let ImplItem::Fn(function) = item
                        && let Some(options) = options(&mut function.attrs)
                    {
                        *item = expanded(options, function);
                    }
                }
            }
            Item::Trait(block) => {
                for item in &mut block.items {
                    if let TraitItem::Fn(function) = item
                        && let Some(options) = options(&mut function.attrs)
                    {
                        *item = expanded(options, function);
                    }
                }
            }
            _ => {}
        }
    }
    file
}

/// Takes `#[idempotent(…)]` from among the attributes.
fn options(attrs: &mut Vec<Attribute>) -> Option<TokenStream> {
    let at = attrs
        .iter()
        .position(|attr| attr.path().is_ident("idempotent"))?;
    Some(attrs.remove(at).meta.require_list().unwrap().tokens.clone())
}

fn expanded<T: Parse>(options: TokenStream, function: &impl ToTokens) -> T {
    syn::parse2(expand(options, &function.to_token_stream())).unwrap()
}
