//! The languages in which errors speak to people.

/// A language of [`Error::text`](crate::Error::text).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Chinese in simplified characters.
    ZhHans,
}

impl Lang {
    /// The BCP 47 tag: `en` or `zh-Hans`.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::ZhHans => "zh-Hans",
        }
    }

    /// The best match for the header `Accept-Language` (RFC 9110), else English.
    ///
    /// Only the language counts: `zh-TW` is Chinese too, and nearer to it than English. A weight of 0 refuses a language, and
    /// `*` is every language that the header does not name. A range whose weight cannot be read counts for nothing.
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
        let mut weights = Vec::new();
        let mut others = 0.0_f32;
        for range in value.split(',') {
            let (tag, parameters) = range.split_once(';').unwrap_or((range, ""));
            let weight = weight(parameters);
            match tag.trim() {
                "*" => others = others.max(weight),
                tag => weights.extend(Self::spoken(tag).map(|lang| (lang, weight))),
            }
        }
        for lang in Self::ALL {
            if !weights.iter().any(|(named, _)| *named == lang) {
                weights.push((lang, others));
            }
        }
        let mut best = (Self::default(), 0.0);
        for (lang, weight) in weights {
            // Of equal weights the first one counts.
            if weight > best.1 {
                best = (lang, weight);
            }
        }
        best.0
    }

    const ALL: [Self; 2] = [Self::En, Self::ZhHans];

    /// The language of a tag: that of `zh-Hant-TW` is `zh`.
    fn spoken(tag: &str) -> Option<Self> {
        let language = |tag: &str| {
            tag.split('-')
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase()
        };
        Self::ALL
            .into_iter()
            .find(|lang| language(lang.tag()) == language(tag))
    }
}

/// The weight among the parameters of a range, as in `q=0.8`; 1 if none is given. The names of parameters have no case. A
/// weight that is not between 0 and 1 is 0.
fn weight(parameters: &str) -> f32 {
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
    fn a_client_that_accepts_neither_language_is_told_in_english() {
        assert_eq!(
            Lang::from_accept_language("en;q=0, zh;q=0, *;q=0"),
            Lang::En
        );
    }
}
