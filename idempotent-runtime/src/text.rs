//! What to tell the person who made a refused call.

use crate::error::Error;

/// A language of [`Error::text`].
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

    /// The best match for the header `Accept-Language`, else English.
    ///
    /// Only the language counts: `zh-TW` is Chinese too, and nearer to it than English.
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
        let mut best = (0.0, Self::default());
        for range in value.split(',') {
            let (tag, weight) = match range.split_once(';') {
                Some((tag, weight)) => (tag, read_weight(weight)),
                None => (range, 1.0),
            };
            // Of equal weights the first one counts.
            if let Some(lang) = Self::spoken(tag.trim())
                && weight > best.0
            {
                best = (weight, lang);
            }
        }
        best.1
    }

    fn spoken(tag: &str) -> Option<Self> {
        let language = tag.split('-').next().unwrap_or(tag);
        [(Self::En, "en"), (Self::ZhHans, "zh")]
            .into_iter()
            .find_map(|(lang, name)| name.eq_ignore_ascii_case(language).then_some(lang))
    }
}

/// The weight in `q=0.8`; one that cannot be read counts for nothing.
fn read_weight(parameter: &str) -> f32 {
    let weight = parameter.trim().strip_prefix("q=");
    weight.and_then(|q| q.parse().ok()).unwrap_or(0.0)
}

impl Error {
    /// What to tell the person who made the call, without technical words.
    ///
    /// It names neither the key nor the endpoint. For the log there is `Display`.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Error, Lang};
    ///
    /// fn toast(error: &Error, accept_language: &str) -> &'static str {
    ///     error.text(Lang::from_accept_language(accept_language))
    /// }
    /// ```
    pub fn text(&self, lang: Lang) -> &'static str {
        let (en, zh_hans) = self.texts();
        match lang {
            Lang::En => en,
            Lang::ZhHans => zh_hans,
        }
    }

    fn texts(&self) -> (&'static str, &'static str) {
        match self {
            Self::InProgress(_) => (
                "Your request is being processed. Please do not send it again.",
                "系统正在处理中,请勿重复操作",
            ),
            Self::AlreadyDone(_) | Self::Taken(_) => (
                "Your request was already received. There is no need to send it again.",
                "请勿重复提交",
            ),
            Self::TokenUsed(_) => (
                "This page was already submitted. Please reload it before you submit it again.",
                "页面已提交,请勿重复提交",
            ),
            Self::TokenUnknown(_) => (
                "This page has expired. Please reload it and try again.",
                "页面已过期,请刷新后重试",
            ),
            Self::LimitReached(_) => (
                "There were too many attempts. Please try again later.",
                "操作过于频繁,请稍后再试",
            ),
            Self::PayloadMismatch(_) => (
                "Your request was changed after it was first sent. Please start again with a new one.",
                "内容与首次提交的不一致,请重新发起",
            ),
            Self::ResultUnavailable(_) => (
                "Your request was completed, but its result cannot be shown here. Please reload.",
                "请求已处理完成,请刷新后查看结果",
            ),
            Self::Unavailable(_) => (
                "The service is busy. Please try again in a moment.",
                "系统繁忙,请稍后再试",
            ),
            Self::LeaseLost(_) => (
                "Your request was interrupted, and may or may not have gone through. \
                 Please reload and check before you try again.",
                "处理被中断,结果尚不确定,请刷新确认后再操作",
            ),
            Self::TokenMalformed(_)
            | Self::Misconfigured(_)
            | Self::ForeignRecord(_)
            | Self::InvalidKey(_)
            | Self::InvalidPolicy(_)
            | Self::NotInstalled(_) => (
                "Your request cannot be processed. Please contact support.",
                "请求无法处理,请联系客服",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_text_in_both_languages() {
        for error in Error::samples() {
            let (en, zh_hans) = (error.text(Lang::En), error.text(Lang::ZhHans));
            assert!(en.is_ascii() && en.ends_with('.'), "{en}");
            assert!(
                zh_hans.chars().all(|char| char == ',' || !char.is_ascii()),
                "{zh_hans}"
            );
        }
    }

    #[test]
    fn texts_that_ask_for_different_actions_differ() {
        let errors = Error::samples();
        for (a, b) in errors
            .iter()
            .flat_map(|a| errors.iter().map(move |b| (a, b)))
        {
            if a.client_action() != b.client_action() {
                assert_ne!(a.text(Lang::En), b.text(Lang::En));
                assert_ne!(a.text(Lang::ZhHans), b.text(Lang::ZhHans));
            }
        }
    }

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
            ("zh;q=0, *", Lang::En),
            ("zh;q=much", Lang::En),
            ("zhuang", Lang::En),
            ("", Lang::En),
            (",;,-", Lang::En),
        ] {
            assert_eq!(Lang::from_accept_language(value), lang, "{value:?}");
        }
    }
}
