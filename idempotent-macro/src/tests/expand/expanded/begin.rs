use idempotence::Error;
use idempotence::sql::sqlx::{Error as SqlError, SqlitePool};
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error(transparent)]
    Refused(#[from] Error),
    #[error(transparent)]
    Database(#[from] SqlError),
}
pub async fn pay(
    pool: &SqlitePool,
    order_no: String,
    _permit: u64,
) -> Result<String, Trouble> {
    let returns = ::idempotence::__private::replaying::<
        Result<String, Trouble>,
        _,
        _,
    >(::idempotence::__private::returns::<Result<String, Trouble>>());
    let begin = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(604800000u64),
                )
                .replay()
                .tx(),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.begin_on(
            ::idempotence::__private::pool(&pool),
            ::idempotence::__private::Retry::with_row(),
        )
    };
    let mut held = match begin {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    loop {
        let mut transaction = match held.attempt().await {
            ::core::result::Result::Ok(transaction) => transaction,
            ::core::result::Result::Err(refusal) => return returns.refused(refusal),
        };
        let outcome = {
            #[allow(unused_mut, unused_variables)]
            let mut order_no = ::idempotence::__private::again(&order_no);
            #[allow(unused_mut, unused_variables)]
            let mut _permit = ::idempotence::__private::again(&_permit);
            let body = {
                #[allow(unused_variables)]
                let tx = &mut transaction;
                async move {
                    if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                        Result<String, Trouble>,
                    > {
                        return outcome;
                    }
                    #[allow(clippy::used_underscore_binding)]
                    let _ = &_permit;
                    {
                        let _ = &*tx;
                        Ok(order_no)
                    }
                }
            };
            let mut body = ::core::pin::pin!(body);
            ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut()))
                .await
        };
        match held.end(&returns, transaction, outcome).await {
            ::core::result::Result::Ok(::core::option::Option::Some(outcome)) => {
                return outcome;
            }
            ::core::result::Result::Ok(::core::option::Option::None) => {}
            ::core::result::Result::Err(error) => return returns.refused(error),
        }
    }
}
pub async fn pay_once(pool: &SqlitePool, order_no: String) -> Result<String, Trouble> {
    let returns = ::idempotence::__private::returns::<Result<String, Trouble>>();
    let begin = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(604800000u64),
                )
                .tx(),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.begin_on(
            ::idempotence::__private::pool(&pool),
            ::idempotence::__private::Retry::with_row().tries(1),
        )
    };
    let mut held = match begin {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let mut transaction = match held.attempt().await {
        ::core::result::Result::Ok(transaction) => transaction,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = {
        let body = {
            #[allow(unused_variables)]
            let tx = &mut transaction;
            async move {
                if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                    Result<String, Trouble>,
                > {
                    return outcome;
                }
                {
                    let _ = &*tx;
                    Ok(order_no)
                }
            }
        };
        let mut body = ::core::pin::pin!(body);
        ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut())).await
    };
    match held.end_once(&returns, transaction, outcome).await {
        ::core::result::Result::Ok(outcome) => outcome,
        ::core::result::Result::Err(error) => returns.refused(error),
    }
}
