//! Free ports for servers.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{TcpListener, UdpSocket};

/// A free port for a server of a test. While this value lives, no other server of this crate gets the port, also while the server
/// is killed: a client would take the other server for its own.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The server uses TCP only, so the same port of UDP marks it as taken. All processes see this, and it ends with the process.
    _mark: UdpSocket,
}

impl Port {
    /// Takes a port on which nothing listens.
    ///
    /// The system gives its clients ports above 32,767. While a server is killed, a client would otherwise get the port of the
    /// server, which then could not start again.
    ///
    /// # Errors
    ///
    /// If the system refuses a socket.
    pub fn free() -> io::Result<Self> {
        loop {
            let random = RandomState::new().hash_one(());
            let number = 20_000 + (random % 12_000) as u16;
            let address = ("127.0.0.1", number);
            let free =
                UdpSocket::bind(address).and_then(|mark| TcpListener::bind(address).map(|_| mark));
            match free {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                free => {
                    return free.map(|mark| Self {
                        number,
                        _mark: mark,
                    });
                }
            }
        }
    }

    /// The number of the port.
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_port_is_not_free_while_its_server_is_killed() {
        let listened = TcpListener::bind(("127.0.0.1", Port::free().unwrap().number())).unwrap();
        let listened = listened.local_addr().unwrap().port();
        let free: Vec<Port> = (0..500).map(|_| Port::free().unwrap()).collect();
        let numbers: HashSet<u16> = free.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), free.len());
        assert!(!numbers.contains(&listened));
        assert!(numbers.iter().all(|port| (20_000..32_000).contains(port)));
    }
}
