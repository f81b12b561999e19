//! Why a request has no id, in the languages of clients: the texts of the extractors and of the layer.

use std::fmt;

use ::http::StatusCode;

use super::text::{KeySyntax, Mistake};
use crate::error::advice::ClientAction;
use crate::error::lang::Lang;
use crate::http::problem::Problem;

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(
    not(any(feature = "actix", feature = "axum")),
    expect(
        unreachable_pub,
        reason = "the integrations with actix and axum export it"
    )
)]
pub enum HeaderFault {
    /// The header is missing.
    Missing,
    /// The header was sent more than once.
    Repeated,
    /// The value cannot be read: its characters, its length or its quotes are wrong.
    Malformed,
}

/// What an id is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Id {
    /// A key of the client, in this syntax.
    IdempotencyKey(KeySyntax),
    #[cfg_attr(
        not(any(feature = "actix", feature = "axum")),
        expect(dead_code, reason = "an extractor reads it")
    )]
    RequestId,
}

/// What has the id, and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier<'a> {
    Header(&'a str),
    /// A parameter of the query.
    Query(&'a str),
    /// A member of the JSON body.
    Member(&'a str),
    /// A field of a form.
    Field(&'a str),
}

impl<'a> Carrier<'a> {
    pub(crate) const fn name(self) -> &'a str {
        match self {
            Self::Header(name) | Self::Query(name) | Self::Member(name) | Self::Field(name) => name,
        }
    }

    fn text(self, lang: Lang) -> String {
        let name = self.name();
        let (en, zh_hans) = match self {
            Self::Header(_) => (format!("header {name}"), format!("请求头 {name}")),
            Self::Query(_) => (
                format!("parameter {name} of the query"),
                format!("查询参数 {name}"),
            ),
            Self::Member(_) => (
                format!("member {name} of the JSON body"),
                format!("JSON 请求体的成员 {name}"),
            ),
            Self::Field(_) => (
                format!("field {name} of the form"),
                format!("表单字段 {name}"),
            ),
        };
        match lang {
            Lang::En | Lang::Custom(_) => en,
            Lang::ZhHans => zh_hans,
        }
    }
}

/// Why a request has no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdFault<'a> {
    pub(crate) id: Id,
    pub(crate) carrier: Carrier<'a>,
    pub(crate) fault: HeaderFault,
    /// What is wrong with the value of a malformed header.
    pub(crate) mistake: Option<Mistake>,
}

impl IdFault<'_> {
    /// A stable name for programs and clients.
    pub(crate) const fn code(&self) -> &'static str {
        match (self.id, self.fault) {
            (Id::IdempotencyKey(_), HeaderFault::Missing) => "idempotency_key_missing",
            (Id::IdempotencyKey(_), HeaderFault::Repeated) => "idempotency_key_repeated",
            (Id::IdempotencyKey(_), HeaderFault::Malformed) => "idempotency_key_malformed",
            (Id::RequestId, HeaderFault::Missing) => "request_id_missing",
            (Id::RequestId, HeaderFault::Repeated) => "request_id_repeated",
            (Id::RequestId, HeaderFault::Malformed) => "request_id_malformed",
        }
    }

    /// What is wrong, in one line.
    fn title(&self, lang: Lang) -> String {
        if !matches!(lang, Lang::ZhHans) {
            return self.to_string();
        }
        let (carrier, what) = (self.carrier.text(lang), self.what(lang));
        match self.mistake.map(|mistake| mistake_text(mistake, lang)) {
            Some(mistake) => format!("{carrier} {what}:{mistake}"),
            None => format!("{carrier} {what}"),
        }
    }

    /// What is wrong, without the mistake in the value.
    const fn what(&self, lang: Lang) -> &'static str {
        let (en, zh_hans) = match self.fault {
            HeaderFault::Missing => ("is missing", "缺失"),
            HeaderFault::Repeated => ("was sent more than once", "重复出现"),
            HeaderFault::Malformed => ("cannot be read", "无法读取"),
        };
        match lang {
            Lang::En | Lang::Custom(_) => en,
            Lang::ZhHans => zh_hans,
        }
    }

    /// What is wrong with a malformed header, and what the client must send.
    pub(crate) fn text(&self, lang: Lang) -> String {
        if let Lang::Custom(translation) = lang
            && let Some(text) = translation.text(self.code())
        {
            return text.to_owned();
        }
        let (carrier, request) = (self.carrier.text(lang), self.request(lang));
        let Some(mistake) = self.mistake.map(|mistake| mistake_text(mistake, lang)) else {
            return request;
        };
        match lang {
            Lang::En | Lang::Custom(_) => format!("The {carrier} {mistake}. {request}"),
            Lang::ZhHans => format!("{carrier} 无法读取:{mistake}。{request}"),
        }
    }

    /// Why the id is not there, in one line for the log.
    pub(crate) fn absence(&self) -> String {
        let carrier = self.carrier.text(Lang::En);
        let why = self.mistake.map(|mistake| mistake_text(mistake, Lang::En));
        format!("the {carrier} {}", why.unwrap_or("is missing"))
    }

    /// What the client must send.
    fn request(&self, lang: Lang) -> String {
        let (carrier, value) = (self.carrier.text(lang), self.expected(lang));
        match lang {
            Lang::En | Lang::Custom(_) => format!("Send the {carrier} once, with {value}."),
            Lang::ZhHans => format!("请发送且仅发送一次{carrier},其值为 {value}"),
        }
    }

    /// The value that the client must send.
    const fn expected(&self, lang: Lang) -> &'static str {
        let (en, zh_hans) = match self.id {
            Id::IdempotencyKey(KeySyntax::Lenient | KeySyntax::Opaque) | Id::RequestId => (
                "1 to 255 printable ASCII characters",
                "1 至 255 个可打印的 ASCII 字符",
            ),
            Id::IdempotencyKey(KeySyntax::Strict) => (
                "1 to 255 printable ASCII characters in double quotes",
                "1 至 255 个可打印的 ASCII 字符,并置于双引号内",
            ),
            Id::IdempotencyKey(KeySyntax::Uuid) => ("a UUID", "UUID"),
        };
        match lang {
            Lang::En | Lang::Custom(_) => en,
            Lang::ZhHans => zh_hans,
        }
    }

    /// The body of the response, with the status 400.
    pub(crate) fn problem(&self, lang: Lang) -> Problem {
        Problem {
            status: StatusCode::BAD_REQUEST,
            code: self.code(),
            title: self.title(lang).into(),
            detail: self.text(lang).into(),
            lang,
            client_action: ClientAction::Fix,
            silent: false,
            retry_after: None,
        }
    }
}

impl fmt::Display for IdFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.carrier.name(), self.what(Lang::En))?;
        match self.mistake {
            Some(mistake) => write!(f, ": it {}", mistake_text(mistake, Lang::En)),
            None => Ok(()),
        }
    }
}

/// The mistake, as the predicate of a sentence about the value.
const fn mistake_text(mistake: Mistake, lang: Lang) -> &'static str {
    let (en, zh_hans) = match mistake {
        Mistake::Empty => ("is empty", "其值为空"),
        Mistake::Blank => ("has only spaces", "其值只有空格"),
        Mistake::TooLong => ("has more than 255 characters", "其值超过 255 个字符"),
        Mistake::Unprintable => (
            "has a character that is not printable ASCII",
            "其值含有不可打印或非 ASCII 的字符",
        ),
        Mistake::SpaceAtAnEnd => ("begins or ends with a space", "其值以空格开头或结尾"),
        Mistake::Unclosed => (
            "has an opening quote without a closing quote",
            "其值有起始引号,但没有结束引号",
        ),
        Mistake::AfterQuote => (
            "has more text after the closing quote",
            "其值在结束引号之后还有其他内容",
        ),
        Mistake::Parameters => (
            "has malformed parameters after the closing quote",
            "其值在结束引号之后的参数格式有误",
        ),
        Mistake::UnquotedQuote => (
            "has a quote, but does not begin with one",
            "其值含有引号,但不以引号开头",
        ),
        Mistake::UnquotedComma => ("has a comma outside of quotes", "其值含有逗号,但没有加引号"),
        Mistake::UnquotedSpace => ("has a space outside of quotes", "其值含有空格,但没有加引号"),
        Mistake::Unquoted => ("is not in double quotes", "其值没有置于双引号内"),
        Mistake::Escape => (
            "has a backslash before a character other than a quote or a backslash",
            "其值中的反斜杠之后不是引号或反斜杠",
        ),
        Mistake::NotUuid => ("is not a UUID", "其值不是 UUID"),
        Mistake::NotString => ("is not a string or a whole number", "其值不是字符串或整数"),
        Mistake::DuplicateMember => (
            "cannot be found, because an object in the body has two members with one name",
            "请求体中有对象含重名成员",
        ),
        Mistake::TooDeep => (
            "cannot be found, because the body is nested deeper than 128 levels",
            "请求体的嵌套超过 128 层",
        ),
        Mistake::OtherType => (
            "cannot be found, because the content type of the request is not JSON",
            "请求的内容类型不是 JSON",
        ),
        Mistake::NotForm => (
            "cannot be found, because the content type of the request is not application/x-www-form-urlencoded",
            "请求的内容类型不是 application/x-www-form-urlencoded",
        ),
        Mistake::NotJson => (
            "cannot be found, because the body is not JSON",
            "请求体不是 JSON",
        ),
        Mistake::Compressed => (
            "cannot be found, because the body is compressed, and no layer outside has decompressed it",
            "请求体经过压缩,外层未解压",
        ),
    };
    match lang {
        Lang::En | Lang::Custom(_) => en,
        Lang::ZhHans => zh_hans,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn malformed(syntax: KeySyntax, mistake: Mistake) -> IdFault<'static> {
        IdFault {
            id: Id::IdempotencyKey(syntax),
            carrier: Carrier::Header("PayPal-Request-Id"),
            fault: HeaderFault::Malformed,
            mistake: Some(mistake),
        }
    }

    #[test]
    fn the_advice_names_the_header_and_the_syntax() {
        for (syntax, mistake, text) in [
            (
                KeySyntax::Lenient,
                Mistake::UnquotedSpace,
                "The header PayPal-Request-Id has a space outside of quotes. \
                 Send the header PayPal-Request-Id once, with 1 to 255 printable ASCII characters.",
            ),
            (
                KeySyntax::Strict,
                Mistake::Unquoted,
                "The header PayPal-Request-Id is not in double quotes. \
                 Send the header PayPal-Request-Id once, with 1 to 255 printable ASCII characters in double quotes.",
            ),
            (
                KeySyntax::Uuid,
                Mistake::NotUuid,
                "The header PayPal-Request-Id is not a UUID. Send the header PayPal-Request-Id once, with a UUID.",
            ),
        ] {
            assert_eq!(malformed(syntax, mistake).text(Lang::En), text);
        }
        assert_eq!(
            malformed(KeySyntax::Uuid, Mistake::NotUuid).text(Lang::ZhHans),
            "请求头 PayPal-Request-Id 无法读取:其值不是 UUID。\
             请发送且仅发送一次请求头 PayPal-Request-Id,其值为 UUID"
        );
    }

    #[test]
    fn the_title_is_in_the_language_of_the_client() {
        let fault = malformed(KeySyntax::Uuid, Mistake::NotUuid);
        assert_eq!(
            fault.problem(Lang::En).title,
            "PayPal-Request-Id cannot be read: it is not a UUID"
        );
        assert_eq!(
            fault.problem(Lang::ZhHans).title,
            "请求头 PayPal-Request-Id 无法读取:其值不是 UUID"
        );
    }

    #[test]
    fn a_language_of_the_program_replaces_the_text() {
        let french = Lang::custom("fr", |code| {
            (code == "idempotency_key_malformed").then_some("La clé est illisible.")
        });
        let fault = malformed(KeySyntax::Lenient, Mistake::Empty);
        assert_eq!(fault.text(french), "La clé est illisible.");
        let missing = IdFault {
            fault: HeaderFault::Missing,
            mistake: None,
            ..fault
        };
        assert_eq!(missing.text(french), missing.text(Lang::En));
    }
}
