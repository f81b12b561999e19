//! Redirects that keep a key at its server.

use reqwest::redirect::Policy;

/// A policy for [`reqwest::ClientBuilder::redirect`]: follows up to ten redirects to the same scheme, host and port. The caller gets a redirect
/// to another server as the answer.
///
/// By default reqwest follows each redirect with all headers but the credentials: it sends the key, and after 307 and 308 the
/// body, to the other server. Nobody knows whether that server honours keys, so a repetition may run twice there.
///
/// ```
/// # fn main() -> reqwest::Result<()> {
/// let client = reqwest::Client::builder()
///     .redirect(idempotence_client::same_server_redirects())
///     .build()?;
/// # Ok(())
/// # }
/// ```
pub fn same_server_redirects() -> Policy {
    Policy::custom(|attempt| {
        let before = attempt.previous().last();
        if before.is_some_and(|before| before.origin() == attempt.url().origin()) {
            Policy::default().redirect(attempt)
        } else {
            attempt.stop()
        }
    })
}
