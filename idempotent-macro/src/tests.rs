#![allow(clippy::unwrap_used)]

use proc_macro2::TokenStream;
use quote::quote;
use syn::{File, Item, LitStr};

use crate::duration::millis;
use crate::error::{List, closest};
use crate::expand::expand;
use crate::options::NAMES;

mod expand;
mod mistakes;
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
