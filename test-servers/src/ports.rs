//! Free ports for servers.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::TcpListener;

/// A port that nobody has now.
///
/// The system gives its clients ports above 32,767. While a server is killed, a client would otherwise get the port of the
/// server, which then could not start again.
pub(crate) fn free() -> io::Result<u16> {
    loop {
        let random = RandomState::new().hash_one(());
        let port = 20_000 + (random % 12_000) as u16;
        match TcpListener::bind(("127.0.0.1", port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound.map(|_| port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_not_free() {
        let taken = TcpListener::bind(("127.0.0.1", free().unwrap())).unwrap();
        let taken = taken.local_addr().unwrap().port();
        let free: Vec<u16> = (0..20_000).map(|_| free().unwrap()).collect();
        assert!(!free.contains(&taken));
        assert!(free.iter().all(|port| (20_000..32_000).contains(port)));
    }
}
