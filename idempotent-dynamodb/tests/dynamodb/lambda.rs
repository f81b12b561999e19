//! The example `lambda` on a stand-in for the interface of Lambda's runtime.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use idempotence_test_servers::MotoServer;

use crate::proxy::read_request;
use crate::{setup, table};

/// Longer than the machine is ever busy.
const DEADLINE: Duration = Duration::from_mins(2);

/// A process of the example, and the interface that it asks for invocations.
struct Instance {
    process: Child,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    invocations: Mutex<Invocations>,
    changed: Condvar,
}

#[derive(Default)]
struct Invocations {
    /// The numbers of invocations, and the keys of their requests.
    waiting: Vec<(String, String)>,
    /// The answers, by the number of their invocation.
    answers: HashMap<String, String>,
}

impl Instance {
    fn start(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&served);
                thread::spawn(move || shared.serve(client));
            }
        });
        let mut command = Command::new(example());
        for (name, value) in [
            ("AWS_LAMBDA_RUNTIME_API", address.as_str()),
            ("AWS_LAMBDA_FUNCTION_NAME", "charge"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
            ("IDEMPOTENCE_URL", url),
        ] {
            command.env(name, value);
        }
        let process = command.spawn().unwrap();
        Self { process, shared }
    }

    /// Answers a request with this key, by this invocation.
    fn invoke(&self, invocation: &str, key: &str) -> String {
        let mut invocations = self.shared.invocations.lock().unwrap();
        let waiting = (invocation.to_owned(), key.to_owned());
        invocations.waiting.push(waiting);
        self.shared.changed.notify_all();
        let is_missing =
            |invocations: &mut Invocations| !invocations.answers.contains_key(invocation);
        let (mut invocations, _) = self
            .shared
            .changed
            .wait_timeout_while(invocations, DEADLINE, is_missing)
            .unwrap();
        invocations.answers.remove(invocation).expect("an answer")
    }

    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Shared {
    /// Answers the requests of one connection.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        loop {
            let request = String::from_utf8_lossy(&read_request(&mut client)?).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let mut parts = path.rsplit('/');
            let (last, number) = (parts.next(), parts.next().unwrap_or_default());
            if last == Some("next") {
                let (number, key) = self.next();
                let deadline = SystemTime::now() + Duration::from_mins(1);
                let deadline = deadline.duration_since(SystemTime::UNIX_EPOCH);
                let deadline = deadline.unwrap().as_millis();
                let event = event(&key);
                let length = event.len();
                write!(
                    client,
                    "HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: {number}\r\nLambda-Runtime-Deadline-Ms: {deadline}\r\n\
                     Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{event}"
                )?;
                continue;
            }
            // `…/invocation/1/response`, or `error`.
            write!(client, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")?;
            let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let mut invocations = self.invocations.lock().unwrap();
            invocations
                .answers
                .insert(number.to_owned(), body.to_owned());
            self.changed.notify_all();
        }
    }

    /// Waits for the next invocation.
    fn next(&self) -> (String, String) {
        let invocations = self.invocations.lock().unwrap();
        let is_idle = |invocations: &mut Invocations| invocations.waiting.is_empty();
        let invocations = self.changed.wait_while(invocations, is_idle);
        invocations.unwrap().waiting.remove(0)
    }
}

/// Cargo builds the examples of a package before its tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples/lambda")
}

/// A request of API Gateway.
fn event(key: &str) -> String {
    format!(
        r#"{{"version":"2.0","routeKey":"$default","rawPath":"/charge","rawQueryString":"","headers":{{"idempotency-key":"{key}"}},
"requestContext":{{"accountId":"1","apiId":"api","domainName":"localhost","domainPrefix":"api","http":{{"method":"POST","path":"/charge",
"protocol":"HTTP/1.1","sourceIp":"127.0.0.1","userAgent":"test"}},"requestId":"id","routeKey":"$default","stage":"$default",
"time":"12/Mar/2020:19:03:58 +0000","timeEpoch":1583348638390}},"isBase64Encoded":false}}"#
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_is_charged_once_although_its_function_is_frozen() {
    let endpoint = MotoServer::shared().unwrap().endpoint();
    table(&setup::client(&endpoint), "lambda").await;
    let url = format!("dynamodb://lambda?region=eu-central-1&endpoint={endpoint}");
    let charged = |answer: String, receipt: &str| {
        assert!(answer.contains("\"statusCode\":200"), "{answer}");
        assert!(
            answer.contains(&format!("\"body\":\"{receipt}\"")),
            "{answer}"
        );
    };

    let first = Instance::start(&url);
    charged(first.invoke("i1", "A-1"), "i1");
    // Lambda freezes the function after its response, and sends the repeated request to another one.
    first.signal("-STOP");
    let second = Instance::start(&url);
    charged(second.invoke("i2", "A-1"), "i1");
    charged(second.invoke("i3", "A-2"), "i3");
    first.signal("-CONT");
    charged(first.invoke("i4", "A-2"), "i3");
    charged(first.invoke("i5", "A-3"), "i5");
}
