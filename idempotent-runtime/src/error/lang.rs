//! The languages of the texts for people.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A language of [`Error::text`](crate::Error::text).
///
/// English and Chinese are built in. A program adds its own with [`Lang::custom`].
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::{Error, Lang};
///
/// const FRENCH: Lang = Lang::custom("fr", |code| match code {
///     "in_progress" => Some("Votre demande est en cours de traitement."),
///     "already_done" | "taken" => Some("Votre demande a déjà été reçue."),
///     _ => None, // in English
/// });
///
/// fn toast(error: &Error, accept_language: &str) -> &'static str {
///     let lang = Lang::negotiate(accept_language, &[Lang::En, FRENCH]);
///     error.text(lang)
/// }
/// ```
///
/// The functions `refusal` of the integrations with axum and tonic also accept such a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Chinese in simplified characters.
    ZhHans,
    /// A language of the program: see [`Lang::custom`].
    Custom(Translation),
}

/// A language that a program adds: see [`Lang::custom`]. Two translations are equal if their tags are equal.
#[derive(Clone, Copy)]
pub struct Translation {
    tag: &'static str,
    text: fn(&str) -> Option<&'static str>,
}

impl fmt::Debug for Translation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tag)
    }
}

impl PartialEq for Translation {
    fn eq(&self, other: &Self) -> bool {
        self.tag == other.tag
    }
}

impl Eq for Translation {}

impl Hash for Translation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag.hash(state);
    }
}

impl Lang {
    /// A language of the program. `tag` is its BCP 47 tag, such as `fr` or `pt-BR`. `text` gets the
    /// [code](crate::Error::code) of an error, or of a header that axum's extractors refuse, and returns the text for the
    /// person. For a code without a text (`None`) the English text is used.
    ///
    /// # Panics
    ///
    /// If the tag is empty, or has other characters than `A-Z a-z 0-9 -`. In a constant this is a compile error.
    pub const fn custom(tag: &'static str, text: fn(&str) -> Option<&'static str>) -> Self {
        let bytes = tag.as_bytes();
        assert!(!bytes.is_empty(), "the tag of a language is not empty");
        let mut at = 0;
        while at < bytes.len() {
            assert!(
                bytes[at].is_ascii_alphanumeric() || bytes[at] == b'-',
                "the tag of a language has only the characters `A-Z a-z 0-9 -`"
            );
            at += 1;
        }
        Self::Custom(Translation { tag, text })
    }

    /// The BCP 47 tag, for example `en` or `zh-Hans`.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::ZhHans => "zh-Hans",
            Self::Custom(translation) => translation.tag,
        }
    }

    /// The text of the program for this code; `None` if the language is built in, or the program has no text.
    pub(crate) fn of_the_program(self, code: &str) -> Option<&'static str> {
        match self {
            Self::Custom(translation) => (translation.text)(code),
            Self::En | Self::ZhHans => None,
        }
    }

    /// The text in this language, or the English text if the language is one of the program.
    pub(crate) fn built_in<T>(self, en: T, zh_hans: T) -> T {
        match self {
            Self::En | Self::Custom(_) => en,
            Self::ZhHans => zh_hans,
        }
    }

    /// The best match for the header `Accept-Language` (RFC 9110) among the built-in languages, else English. See
    /// [`negotiate`](Self::negotiate).
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::Lang;
    ///
    /// assert_eq!(Lang::from_accept_language("zh-CN,zh;q=0.9,en;q=0.8"), Lang::ZhHans);
    /// assert_eq!(Lang::from_accept_language("fr, en;q=0.8, zh;q=0.3"), Lang::En);
    /// assert_eq!(Lang::from_accept_language("fr"), Lang::En);
    /// ```
    pub fn from_accept_language(value: &str) -> Self {
        Self::negotiate(value, &[Self::En, Self::ZhHans])
    }

    /// The best match for the header `Accept-Language` (RFC 9110) among `supported`, else the first of `supported`. English if
    /// `supported` is empty.
    ///
    /// If no tag is equal, the language before the first `-` counts: `zh-TW` matches `zh-Hans`, because it is nearer than
    /// English. A weight of 0 refuses a language. `*` is every language that the header does not name. A range whose weight
    /// cannot be read is ignored.
    pub fn negotiate(value: &str, supported: &[Self]) -> Self {
        let mut weights = Vec::new();
        let mut others = 0.0_f32;
        for range in value.split(',') {
            let (tag, parameters) = range.split_once(';').unwrap_or((range, ""));
            let weight = weight(parameters);
            match tag.trim() {
                "*" => others = others.max(weight),
                tag => weights.extend(named(tag, supported).map(|lang| (lang, weight))),
            }
        }
        for lang in supported {
            if !weights.iter().any(|(named, _)| named == lang) {
                weights.push((*lang, others));
            }
        }
        let mut best = (supported.first().copied().unwrap_or_default(), 0.0);
        for (lang, weight) in weights {
            // Among equal weights the first counts.
            if weight > best.1 {
                best = (lang, weight);
            }
        }
        best.0
    }
}

/// The supported language that a tag names: the tag itself, or its language, which is `zh` in `zh-Hant-TW`.
fn named(tag: &str, supported: &[Lang]) -> Option<Lang> {
    let language = |tag: &str| {
        let language = tag.split('-').next().unwrap_or_default();
        language.to_ascii_lowercase()
    };
    let mut langs = supported.iter();
    let exact = langs.find(|lang| lang.tag().eq_ignore_ascii_case(tag));
    let nearest = || {
        let mut langs = supported.iter();
        langs.find(|lang| language(lang.tag()) == language(tag))
    };
    exact.or_else(nearest).copied()
}

/// The weight among the parameters of a range, as in `q=0.8`; 1 if none is given. The names of parameters have no case. A
/// weight that is not between 0 and 1 is 0.
pub fn weight(parameters: &str) -> f32 {
    let mut pairs = parameters
        .split(';')
        .filter_map(|pair| pair.split_once('='));
    match pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("q")) {
        Some((_, value)) => {
            let weight = value.trim().parse().unwrap_or(0.0);
            if (0.0..=1.0).contains(&weight) {
                weight
            } else {
                0.0
            }
        }
        None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_with_the_highest_weight_is_taken() {
        for (value, lang) in [
            ("zh", Lang::ZhHans),
            ("zh-Hans-CN", Lang::ZhHans),
            ("ZH-tw", Lang::ZhHans),
            ("en-GB, zh", Lang::En),
            ("zh, en-GB", Lang::ZhHans),
            ("en;q=0.5, zh;q=0.8", Lang::ZhHans),
            ("en ; q=0.5 , zh ; q=0.8", Lang::ZhHans),
            ("en;\tq = 0.5,\tzh;q=0.8", Lang::ZhHans),
            ("zh;q=much", Lang::En),
            ("zh;q", Lang::ZhHans),
            ("zh;", Lang::ZhHans),
            ("zh;q=0.5;q=1, en;q=0.7", Lang::En),
            ("en;level=1;q=0.5, zh;q=0.7", Lang::ZhHans),
            ("zhuang", Lang::En),
            ("", Lang::En),
            (",;,-", Lang::En),
        ] {
            assert_eq!(Lang::from_accept_language(value), lang, "{value:?}");
        }
    }

    #[test]
    fn the_name_of_a_weight_has_no_case() {
        for (value, lang) in [
            ("zh-CN;Q=0.9", Lang::ZhHans),
            ("en;Q=0.5, zh;q=0.8", Lang::ZhHans),
            ("en;q=0.8, zh;Q=0.5", Lang::En),
        ] {
            assert_eq!(Lang::from_accept_language(value), lang, "{value:?}");
        }
    }

    #[test]
    fn a_star_is_every_language_that_is_not_named() {
        for (value, lang) in [
            ("*", Lang::En),
            ("fr, *;q=0.1", Lang::En),
            ("en;q=0, *", Lang::ZhHans),
            ("zh;q=0, *", Lang::En),
            ("en;q=0.5, *;q=0.8", Lang::ZhHans),
            ("*, zh", Lang::ZhHans),
            ("*;q=0.5, zh;q=0.1", Lang::En),
            ("*;q=0, zh;q=0.1", Lang::ZhHans),
        ] {
            assert_eq!(Lang::from_accept_language(value), lang, "{value:?}");
        }
    }

    #[test]
    fn a_weight_is_between_0_and_1() {
        for weight in [
            "0", "0.000", "-0", "-1", "1.1", "2", "inf", "nan", "1e9", "",
        ] {
            let value = format!("zh;q={weight}, en;q=0.001");
            assert_eq!(Lang::from_accept_language(&value), Lang::En, "{value:?}");
        }
        for weight in ["1", "1.000", "0.01", "1."] {
            let value = format!("en;q=0.001, zh;q={weight}");
            assert_eq!(
                Lang::from_accept_language(&value),
                Lang::ZhHans,
                "{value:?}"
            );
        }
    }

    #[test]
    fn a_client_that_accepts_no_language_gets_english() {
        assert_eq!(
            Lang::from_accept_language("en;q=0, zh;q=0, *;q=0"),
            Lang::En
        );
    }

    #[test]
    fn a_language_of_the_program_is_negotiated_like_the_others() {
        const FRENCH: Lang = Lang::custom("fr", |_| None);
        const BRAZILIAN: Lang = Lang::custom("pt-BR", |_| None);
        const PORTUGUESE: Lang = Lang::custom("pt", |_| None);
        let supported = [Lang::En, FRENCH, BRAZILIAN, PORTUGUESE];
        for (value, lang) in [
            ("fr-CA, en;q=0.5", FRENCH),
            ("en, fr;q=0.5", Lang::En),
            ("pt-BR", BRAZILIAN),
            ("pt", PORTUGUESE),
            ("pt-AO", BRAZILIAN),
            ("zh", Lang::En),
            ("en;q=0, *", FRENCH),
        ] {
            assert_eq!(Lang::negotiate(value, &supported), lang, "{value:?}");
        }
        assert_eq!(Lang::negotiate("zh", &[FRENCH, Lang::En]), FRENCH);
        assert_eq!(Lang::negotiate("zh", &[]), Lang::En);
        assert_ne!(FRENCH, PORTUGUESE);
        assert_eq!(FRENCH.tag(), "fr");
    }

    #[test]
    #[should_panic(expected = "the tag of a language")]
    fn a_tag_that_is_no_header_value_is_refused() {
        Lang::custom("fr\r\n", |_| None);
    }
}
