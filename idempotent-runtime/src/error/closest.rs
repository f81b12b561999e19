//! Suggestions for misspelled words.

/// The candidate that is most similar to `word`, if any is similar enough.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// What is wrong with an unknown parameter of a URL: `number` is its position, and `known` are the parameters that the URL may have.
///
/// Its name is repeated only if it looks like one: any other text, and each text of a URL that `may_be_secret`, may be a password, or the
/// rest of a password after an `&`.
pub fn unknown_parameter(
    number: usize,
    (name, value): (&str, &str),
    may_be_secret: bool,
    known: &[&str],
) -> String {
    let is_name = |char: char| char.is_ascii_lowercase() || "_-".contains(char);
    let is_shown =
        !may_be_secret && !value.is_empty() && name.len() <= 40 && name.chars().all(is_name);
    let what = if is_shown {
        format!("has an unknown parameter `{name}`")
    } else {
        format!(
            "has an unknown parameter at position {number} (in a password write `&` as `%26` and `?` as `%3F`)"
        )
    };
    match closest(name, known.iter().copied()) {
        Some(near) => format!("{what}: did you mean `{near}`?"),
        None => format!("{what}: the known parameters are `{}`", known.join("`, `")),
    }
}
