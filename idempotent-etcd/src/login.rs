//! The token of a user.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idempotent_runtime::store::StoreErrorKind;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

use crate::failure::{is_auth_off, judge};
use crate::member::Member;
use crate::shared::SharedAnswer;
use crate::wire::Authenticate;

/// The token of the user, after its login.
pub(crate) type Token = MetadataValue<Ascii>;

/// A user, and the last login.
pub(crate) struct Login {
    runtime: Handle,
    user: Authenticate,
    last: Mutex<Option<SharedAnswer<Option<Token>>>>,
}

/// How long a member has for a login: half of the deadline of a handle, so that a call has time for a login at the next member.
const PATIENCE: Duration = Duration::from_millis(500);

impl Login {
    pub(crate) fn new(runtime: Handle, user: Authenticate) -> Self {
        Self {
            runtime,
            user,
            last: Mutex::default(),
        }
    }

    /// The token of the user, or `None` if the cluster has no users. Calls that need it share a login, because it takes long by design.
    pub(crate) async fn token(&self, member: &Member) -> Result<Option<Token>, Status> {
        let login = {
            let mut last = self.last();
            last.take_if(|login| login.peek().is_some_and(|answer| !is_granted(&answer)));
            let login = last.get_or_insert_with(|| {
                let login = log_in(member.clone(), self.user.clone());
                SharedAnswer::ask(&self.runtime, login)
            });
            login.clone()
        };
        login.wait().await
    }

    /// Forgets the token that a member has refused, but no newer one.
    pub(crate) fn forget(&self, refused: Option<&Token>) {
        let mut last = self.last();
        last.take_if(|login| match login.peek() {
            Some(Ok(token)) => token.as_ref() == refused,
            _ => false,
        });
    }

    /// Whether the user has a token.
    pub(crate) fn has_token(&self) -> bool {
        let answer = self.last().as_ref().and_then(SharedAnswer::peek);
        answer.is_some_and(|answer| is_granted(&answer))
    }

    fn last(&self) -> MutexGuard<'_, Option<SharedAnswer<Option<Token>>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_granted(answer: &Result<Option<Token>, Status>) -> bool {
    matches!(answer, Ok(Some(_)))
}

async fn log_in(member: Member, user: Authenticate) -> Result<Option<Token>, Status> {
    let granted = match timeout(PATIENCE, member.unary(Request::new(user))).await {
        Ok(Ok(granted)) => granted,
        Ok(Err(status)) if is_auth_off(&status) => return Ok(None),
        Ok(Err(status)) if judge(&status).0 != StoreErrorKind::Unknown => return Err(status),
        // The request that needs the token was not sent.
        _ => return Err(Status::aborted("no answer to the login")),
    };
    let token = MetadataValue::try_from(granted.token);
    let token = token.map_err(|_| Status::unauthenticated("the token is not text"));
    token.map(Some)
}
