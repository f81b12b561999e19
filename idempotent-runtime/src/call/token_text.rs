//! The values that the option `token` accepts as the text of a token.

/// The text of a token in the option `token`: any type that implements `AsRef<str>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the text of a one-time token",
    label = "not the text of a token",
    note = "the first part of `token` is a `String`, a `&str`, a `Token` or anything else that is `AsRef<str>`, as in `token = \"form.token, user_id\"`"
)]
pub trait TokenText {
    /// The text.
    fn text(&self) -> &str;
}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + ?Sized> TokenText for T {
    fn text(&self) -> &str {
        self.as_ref()
    }
}
