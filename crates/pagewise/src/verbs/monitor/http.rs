// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers HTTP requests for metrics: one connection at a time, each with a time limit, and closed
//! after its answer.
//!
//! httparse parses the requests. The small HTTP servers that were examined (tiny_http, rouille)
//! start a thread for each connection without a limit, so anybody who can connect could make the
//! monitor allocate memory when memory is short.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::{Page, listen};

/// Maximum size of a request in bytes; larger ones are refused.
const MAX_REQUEST: usize = 8 << 10;
const MAX_HEADERS: usize = 64;
/// Time limit for a request and its answer together.
const PATIENCE: Duration = Duration::from_secs(5);
/// The HTTP path of the metrics.
const PATH: &str = "/metrics";

/// A socket that accepts connections.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn describe(&self) -> String {
        match self {
            Self::Tcp(tcp) => match tcp.local_addr() {
                Ok(address) => format!("http://{address}{PATH}"),
                Err(_) => "a TCP socket".to_owned(),
            },
            Self::Unix(unix) => match unix.local_addr() {
                Ok(address) => match address.as_pathname() {
                    Some(path) => format!("unix:{}", path.display()),
                    None => "a Unix socket".to_owned(),
                },
                Err(_) => "a Unix socket".to_owned(),
            },
        }
    }
}

/// Serves the page on the address, or on sockets that were passed to this process (socket
/// activation). Returns the addresses.
pub(super) fn serve(address: &str, page: &Page) -> anyhow::Result<Vec<String>> {
    let listeners = listen::open(address)?;
    let places = listeners.iter().map(Listener::describe).collect();
    for listener in listeners {
        let page = page.clone();
        std::thread::spawn(move || answer_connections(&listener, &page));
    }
    Ok(places)
}

fn answer_connections(listener: &Listener, page: &Page) {
    loop {
        let answered = match listener {
            Listener::Tcp(tcp) => tcp.accept().and_then(|(stream, _)| answer(stream, page)),
            Listener::Unix(unix) => unix.accept().and_then(|(stream, _)| answer(stream, page)),
        };
        if answered.is_err() {
            // a broken connection is not reported; the pause keeps the loop from spinning when
            // there are no file descriptors
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A connection with time limits.
trait Connection: Read + Write {
    fn set_time_limit(&self, time: Duration) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn set_time_limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Connection for UnixStream {
    fn set_time_limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

fn answer(mut stream: impl Connection, page: &Page) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let reply = match read_request(&mut stream, until)? {
        Asked::Metrics { with_body } => {
            let text = page.get();
            if text.is_empty() {
                Reply::new("503 Service Unavailable", "the first reading is not finished\n")
            } else {
                Reply { kind: OPENMETRICS, with_body, ..Reply::new("200 OK", &text) }
            }
        }
        Asked::Start { with_body } => Reply { with_body, ..Reply::new("200 OK", START) },
        Asked::Other => Reply::new("404 Not Found", "the metrics are at /metrics\n"),
        Asked::Method => Reply::new("405 Method Not Allowed", "only GET and HEAD\n"),
        Asked::Bad => Reply::new("400 Bad Request", "no HTTP request that is understood\n"),
    };
    write_all(&mut stream, &reply.to_bytes(), until)
}

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const START: &str = "pagewise monitor: the metrics are at /metrics\n";

struct Reply {
    status: &'static str,
    kind: &'static str,
    body: String,
    with_body: bool,
}

impl Reply {
    fn new(status: &'static str, body: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.to_owned(), with_body: true }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let allow = if self.status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let mut text = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        if self.with_body {
            text.push_str(&self.body);
        }
        text.into_bytes()
    }
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Metrics { with_body: bool },
    Start { with_body: bool },
    Other,
    Method,
    Bad,
}

fn read_request(stream: &mut impl Connection, until: Instant) -> io::Result<Asked> {
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    loop {
        if let Some(asked) = parse(&bytes) {
            return Ok(asked);
        }
        stream.set_time_limit(time_left(until)?)?;
        match stream.read(&mut piece)? {
            0 => return Ok(Asked::Bad),
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

/// What the request asks for; `None` if it is not complete.
fn parse(bytes: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_REQUEST => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) | Err(_) => return Some(Asked::Bad),
    }
    let with_body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Some(Asked::Method),
    };
    let path = request.path.unwrap_or_default();
    Some(match path.split('?').next().unwrap_or_default() {
        PATH => Asked::Metrics { with_body },
        "/" => Asked::Start { with_body },
        _ => Asked::Other,
    })
}

fn write_all(stream: &mut impl Connection, bytes: &[u8], until: Instant) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        stream.set_time_limit(time_left(until)?)?;
        match stream.write(rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => rest = &rest[written..],
        }
    }
    stream.flush()
}

fn time_left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_told_apart() {
        let asked = |text: &str| parse(text.as_bytes());
        let metrics = Asked::Metrics { with_body: true };
        assert_eq!(asked("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Some(metrics));
        assert_eq!(
            asked("GET /metrics?x=1 HTTP/1.0\r\n\r\n"),
            Some(Asked::Metrics { with_body: true })
        );
        assert_eq!(
            asked("HEAD /metrics HTTP/1.1\r\n\r\n"),
            Some(Asked::Metrics { with_body: false })
        );
        assert_eq!(asked("GET / HTTP/1.1\r\n\r\n"), Some(Asked::Start { with_body: true }));
        assert_eq!(asked("GET /etc/passwd HTTP/1.1\r\n\r\n"), Some(Asked::Other));
        assert_eq!(asked("POST /metrics HTTP/1.1\r\n\r\n"), Some(Asked::Method));
        assert_eq!(asked("GET /metrics HTTP/1.1\r\nHost: x\r\n"), None);
        assert_eq!(asked("\u{16}\u{3}\u{1} no http"), Some(Asked::Bad));
    }

    #[test]
    fn a_request_without_end_is_refused() {
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(MAX_REQUEST));
        assert_eq!(parse(long.as_bytes()), Some(Asked::Bad));
        let many = "X: y\r\n".repeat(MAX_HEADERS + 1);
        let many = format!("GET /metrics HTTP/1.1\r\n{many}\r\n");
        assert_eq!(parse(many.as_bytes()), Some(Asked::Bad));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }
    }
}
