//! Why a request has no id, in the languages of clients: the texts of the extractors and of the layer.

use std::fmt;

use ::http::StatusCode;

use super::mistake::Mistake;
use super::problem::Problem;
use crate::{ClientAction, Lang};

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
pub enum Id {
    /// A key of the client.
    IdempotencyKey(Expected),
    /// A [`RequestId`](crate::RequestId).
    RequestId,
}

/// Which values are a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Printable ASCII characters.
    Text,
    /// Printable ASCII characters in double quotes.
    Quoted,
    /// A UUID.
    Uuid,
}

/// What has the id, and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier<'a> {
    /// A header.
    Header(&'a str),
    /// A parameter of the query.
    Query(&'a str),
    /// A member of the JSON body.
    Member(&'a str),
    /// A field of a form.
    Field(&'a str),
}

impl<'a> Carrier<'a> {
    /// The name of the header, the parameter, the member or the field.
    pub const fn name(self) -> &'a str {
        match self {
            Self::Header(name) | Self::Query(name) | Self::Member(name) | Self::Field(name) => name,
        }
    }

    fn text(self, lang: Lang) -> String {
        let (en, zh_hans) = match self {
            Self::Header(_) => ("header {}", "请求头 {}"),
            Self::Query(_) => ("parameter {} of the query", "查询参数 {}"),
            Self::Member(_) => ("member {} of the JSON body", "JSON 请求体的成员 {}"),
            Self::Field(_) => ("field {} of the form", "表单字段 {}"),
        };
        lang.built_in(en, zh_hans).replace("{}", self.name())
    }
}

/// Why a request has no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdFault<'a> {
    /// What the id is for.
    pub id: Id,
    /// What should have the id.
    pub carrier: Carrier<'a>,
    /// Why there is no id.
    pub fault: HeaderFault,
    /// What is wrong with the value of a malformed header.
    pub mistake: Option<Mistake>,
}

impl IdFault<'_> {
    /// A stable name for programs and clients.
    pub const fn code(&self) -> &'static str {
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
        match self.mistake.map(|mistake| mistake.text(lang)) {
            Some(mistake) => format!("{carrier} {what}：{mistake}"),
            None => format!("{carrier} {what}"),
        }
    }

    /// What is wrong, without the mistake in the value.
    fn what(&self, lang: Lang) -> &'static str {
        match self.fault {
            HeaderFault::Missing => lang.built_in("is missing", "缺失"),
            HeaderFault::Repeated => lang.built_in("was sent more than once", "重复出现"),
            HeaderFault::Malformed => lang.built_in("cannot be read", "无法读取"),
        }
    }

    /// What is wrong with a malformed header, and what the client must send.
    pub fn text(&self, lang: Lang) -> String {
        if let Some(text) = lang.of_the_program(self.code()) {
            return text.to_owned();
        }
        let (carrier, request) = (self.carrier.text(lang), self.request(lang));
        let Some(mistake) = self.mistake.map(|mistake| mistake.text(lang)) else {
            return request;
        };
        lang.built_in(
            format!("The {carrier} {mistake}. {request}"),
            format!("{carrier} 无法读取：{mistake}。{request}"),
        )
    }

    /// Why the id is not there, in one line for the log.
    pub fn absence(&self) -> String {
        let carrier = self.carrier.text(Lang::En);
        let why = self.mistake.map(|mistake| mistake.text(Lang::En));
        format!("the {carrier} {}", why.unwrap_or("is missing"))
    }

    /// What the client must send.
    fn request(&self, lang: Lang) -> String {
        let (carrier, value) = (self.carrier.text(lang), self.expected(lang));
        lang.built_in(
            format!("Send the {carrier} once, with {value}."),
            format!("{carrier} 必须且只能出现一次，其值为 {value}"),
        )
    }

    /// The value that the client must send.
    fn expected(&self, lang: Lang) -> &'static str {
        let (en, zh_hans) = match self.id {
            Id::IdempotencyKey(Expected::Text) | Id::RequestId => (
                "1 to 255 printable ASCII characters",
                "1 至 255 个可打印的 ASCII 字符",
            ),
            Id::IdempotencyKey(Expected::Quoted) => (
                "1 to 255 printable ASCII characters in double quotes",
                "1 至 255 个可打印的 ASCII 字符，并置于双引号内",
            ),
            Id::IdempotencyKey(Expected::Uuid) => ("a UUID", "UUID"),
        };
        lang.built_in(en, zh_hans)
    }

    /// The body of the response, with the status 400.
    pub fn problem(&self, lang: Lang) -> Problem {
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
            Some(mistake) => write!(f, ": it {}", mistake.text(Lang::En)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn malformed(expected: Expected, mistake: Mistake) -> IdFault<'static> {
        IdFault {
            id: Id::IdempotencyKey(expected),
            carrier: Carrier::Header("PayPal-Request-Id"),
            fault: HeaderFault::Malformed,
            mistake: Some(mistake),
        }
    }

    #[test]
    fn the_advice_names_the_header_and_the_syntax() {
        for (expected, mistake, text) in [
            (
                Expected::Text,
                Mistake::UnquotedSpace,
                "The header PayPal-Request-Id has a space outside of quotes. \
                 Send the header PayPal-Request-Id once, with 1 to 255 printable ASCII characters.",
            ),
            (
                Expected::Quoted,
                Mistake::Unquoted,
                "The header PayPal-Request-Id is not in double quotes. \
                 Send the header PayPal-Request-Id once, with 1 to 255 printable ASCII characters in double quotes.",
            ),
            (
                Expected::Uuid,
                Mistake::NotUuid,
                "The header PayPal-Request-Id is not a UUID. Send the header PayPal-Request-Id once, with a UUID.",
            ),
        ] {
            assert_eq!(malformed(expected, mistake).text(Lang::En), text);
        }
        assert_eq!(
            malformed(Expected::Uuid, Mistake::NotUuid).text(Lang::ZhHans),
            "请求头 PayPal-Request-Id 无法读取：其值不是 UUID。\
             请求头 PayPal-Request-Id 必须且只能出现一次，其值为 UUID"
        );
    }

    #[test]
    fn the_title_is_in_the_language_of_the_client() {
        let fault = malformed(Expected::Uuid, Mistake::NotUuid);
        assert_eq!(
            fault.problem(Lang::En).title,
            "PayPal-Request-Id cannot be read: it is not a UUID"
        );
        assert_eq!(
            fault.problem(Lang::ZhHans).title,
            "请求头 PayPal-Request-Id 无法读取：其值不是 UUID"
        );
    }

    #[test]
    fn a_language_of_the_program_replaces_the_text() {
        let french = Lang::custom("fr", |code| {
            (code == "idempotency_key_malformed").then_some("La clé est illisible.")
        });
        let fault = malformed(Expected::Text, Mistake::Empty);
        assert_eq!(fault.text(french), "La clé est illisible.");
        let missing = IdFault {
            fault: HeaderFault::Missing,
            mistake: None,
            ..fault
        };
        assert_eq!(missing.text(french), missing.text(Lang::En));
    }
}
