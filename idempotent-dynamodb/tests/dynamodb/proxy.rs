//! A proxy before moto, which counts requests, loses messages, and answers itself.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What happens to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The server does not get it, and the client gets no answer.
    LoseRequest,
    /// The server carries it out, and the client gets no answer.
    LoseReply,
    /// The client gets this status and this code of an error, with a wrong date. The server gets nothing.
    Refuse(u16, &'static str),
}

#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    server: String,
    faults: Mutex<VecDeque<Fault>>,
    operations: Mutex<Vec<String>>,
    /// An operation, and the status and the body of its answers.
    answer: Mutex<Option<(&'static str, u16, &'static str)>>,
    /// The operation whose next request is delayed, and that request.
    delayed: Mutex<(Option<&'static str>, Vec<u8>)>,
}

impl Proxy {
    /// A proxy before the server at this endpoint.
    pub(crate) fn before(endpoint: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            server: endpoint.replace("http://", ""),
            ..Shared::default()
        });
        let proxied = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&proxied);
                thread::spawn(move || shared.pass(client));
            }
        });
        Self { port, shared }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What happens to the next requests, one after the other.
    pub(crate) fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.shared.faults.lock().unwrap().extend(faults);
    }

    /// Answers all requests of this operation, with a wrong date. The server gets none of them.
    pub(crate) fn answer(&self, operation: &'static str, status: u16, body: &'static str) {
        *self.shared.answer.lock().unwrap() = Some((operation, status, body));
    }

    /// Delays the next request of this operation. The client gets no answer.
    pub(crate) fn delay(&self, operation: &'static str) {
        self.shared.delayed.lock().unwrap().0 = Some(operation);
    }

    /// Sends the delayed request to the server.
    pub(crate) fn deliver(&self) {
        let request = std::mem::take(&mut self.shared.delayed.lock().unwrap().1);
        assert!(!request.is_empty(), "no request is delayed");
        let answer = self.shared.ask_server(&request).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 "), "{answer:?}");
    }

    /// The operations of the requests since the last question.
    pub(crate) fn since_last(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.operations.lock().unwrap())
    }
}

impl Shared {
    /// Passes one request on. Moto closes the connection after its answer.
    fn pass(&self, mut client: TcpStream) -> io::Result<()> {
        let request = read_request(&mut client)?;
        let head = String::from_utf8_lossy(&request);
        let target = head.split_once("DynamoDB_20120810.");
        if let Some(target) = target.and_then(|(_, rest)| rest.split_once("\r\n")) {
            let name = target.0.to_owned();
            let mut delayed = self.delayed.lock().unwrap();
            if delayed.0.take_if(|operation| *operation == name).is_some() {
                delayed.1.clone_from(&request);
                return Ok(());
            }
            self.operations.lock().unwrap().push(name.clone());
            let answer = *self.answer.lock().unwrap();
            if let Some((_, status, body)) = answer.filter(|(operation, ..)| *operation == name) {
                return write_answer(&mut client, status, body);
            }
        }
        let fault = self.faults.lock().unwrap().pop_front();
        match fault {
            Some(Fault::LoseRequest) => return Ok(()),
            Some(Fault::Refuse(status, code)) => {
                let body = format!(r#"{{"__type":"{code}","message":"by the proxy"}}"#);
                return write_answer(&mut client, status, &body);
            }
            Some(Fault::LoseReply) | None => {}
        }
        let answer = self.ask_server(&request)?;
        if fault.is_none() {
            client.write_all(&answer)?;
        }
        Ok(())
    }

    fn ask_server(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut server = TcpStream::connect(&self.server)?;
        server.write_all(request)?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

fn write_answer(client: &mut TcpStream, status: u16, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status} By the proxy\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Date: Fri, 01 Jan 2100 00:00:00 GMT\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

pub(crate) fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        let read = client.read(&mut part)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some(head) = text.find("\r\n\r\n") else {
            continue;
        };
        let length = text[..head].split_once("content-length: ");
        let length = length.map_or("0", |(_, rest)| rest.split("\r\n").next().unwrap());
        if request.len() >= head + 4 + length.parse::<usize>().unwrap() {
            return Ok(request);
        }
    }
}
