use idempotence::Error;
/// The attributes of a function stay.
pub async fn upload(
    user_id: u64,
    file_md5: String,
    file: Vec<u8>,
) -> Result<usize, Error> {
    let returns = ::idempotence::__private::returns::<Result<usize, Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(30000u64),
                )
                .release(::idempotence::__private::Release::Always),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&user_id).checked());
        call.part(::idempotence::__private::Part::of(&file_md5).checked());
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<usize, Error>,
            > {
                return outcome;
            }
            {
                tokio::task::yield_now().await;
                if file.is_empty() {
                    return Ok(0);
                }
                Ok(file.len() + file_md5.len())
            }
        };
        let mut body = ::core::pin::pin!(body);
        ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut())).await
    } {
        ::core::result::Result::Ok(outcome) => outcome,
        ::core::result::Result::Err(error) => return returns.refused(error),
    };
    returns.settle(held, &outcome).await;
    outcome
}
