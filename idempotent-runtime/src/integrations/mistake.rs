//! What is wrong with the value of an id, or with the request that should have it.

use crate::Lang;

/// What is wrong with the value of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`text` says what each mistake is")]
pub enum Mistake {
    Empty,
    Blank,
    TooLong,
    Unprintable,
    SpaceAtAnEnd,
    Unclosed,
    AfterQuote,
    Parameters,
    UnquotedQuote,
    UnquotedComma,
    UnquotedSpace,
    Unquoted,
    Escape,
    NotUuid,
    NotString,
    DuplicateMember,
    TooDeep,
    /// The content type of the body is not JSON.
    OtherType,
    /// The content type of the body is not that of a form.
    NotForm,
    NotJson,
    /// The body has a `Content-Encoding`.
    Compressed,
}

/// The largest number of characters in a key.
const LONGEST: usize = 255;

impl Mistake {
    /// The mistake in a text that is not 1 to 255 printable ASCII characters.
    pub fn in_characters(text: &[u8]) -> Option<Self> {
        // Without an early end, because the compiler then compares many bytes at once.
        let is_printable = |byte: &u8| matches!(byte, b' '..=b'~');
        let all_printable = text.iter().fold(true, |all, byte| all & is_printable(byte));
        if text.is_empty() {
            Some(Self::Empty)
        } else if !all_printable {
            Some(Self::Unprintable)
        } else if text.len() > LONGEST {
            Some(Self::TooLong)
        } else {
            None
        }
    }

    /// The mistake, as the predicate of a sentence about the value.
    pub fn text(self, lang: Lang) -> &'static str {
        let (en, zh_hans) = self.texts();
        lang.built_in(en, zh_hans)
    }

    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Empty => ("is empty", "其值为空"),
            Self::Blank => ("has only spaces", "其值只有空格"),
            Self::TooLong => ("has more than 255 characters", "其值超过 255 个字符"),
            Self::Unprintable => (
                "has a character that is not printable ASCII",
                "其值含有不可打印或非 ASCII 的字符",
            ),
            Self::SpaceAtAnEnd => ("begins or ends with a space", "其值以空格开头或结尾"),
            Self::Unclosed => (
                "has an opening quote without a closing quote",
                "其值有起始引号，但没有结束引号",
            ),
            Self::AfterQuote => (
                "has more text after the closing quote",
                "其值在结束引号之后还有其他内容",
            ),
            Self::Parameters => (
                "has malformed parameters after the closing quote",
                "其值在结束引号之后的参数格式有误",
            ),
            Self::UnquotedQuote => (
                "has a quote, but does not begin with one",
                "其值含有引号，但不以引号开头",
            ),
            Self::UnquotedComma => (
                "has a comma outside of quotes",
                "其值含有逗号，但没有加引号",
            ),
            Self::UnquotedSpace => (
                "has a space outside of quotes",
                "其值含有空格，但没有加引号",
            ),
            Self::Unquoted => ("is not in double quotes", "其值没有置于双引号内"),
            Self::Escape => (
                "has a backslash before a character other than a quote or a backslash",
                "其值中的反斜杠之后不是引号或反斜杠",
            ),
            Self::NotUuid => ("is not a UUID", "其值不是 UUID"),
            Self::NotString => ("is not a string or a whole number", "其值不是字符串或整数"),
            Self::DuplicateMember => (
                "cannot be found, because an object in the body has two members with one name",
                "请求体中有对象含重名成员",
            ),
            Self::TooDeep => (
                "cannot be found, because the body is nested deeper than 128 levels",
                "请求体的嵌套超过 128 层",
            ),
            Self::OtherType | Self::NotForm | Self::NotJson | Self::Compressed => {
                self.texts_of_absence()
            }
        }
    }

    /// The texts if the request cannot have the value.
    const fn texts_of_absence(self) -> (&'static str, &'static str) {
        match self {
            Self::OtherType => (
                "cannot be found, because the content type of the request is not JSON",
                "请求的内容类型不是 JSON",
            ),
            Self::NotForm => (
                "cannot be found, because the content type of the request is not application/x-www-form-urlencoded",
                "请求的内容类型不是 application/x-www-form-urlencoded",
            ),
            Self::NotJson => (
                "cannot be found, because the body is not JSON",
                "请求体不是 JSON",
            ),
            Self::Compressed => (
                "cannot be found, because the body is compressed, and no layer outside has decompressed it",
                "请求体经过压缩，外层未解压",
            ),
            _ => ("is missing", "缺失"),
        }
    }
}
