//! A client that says exactly the bytes it is told to.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::common::{Server, not_hanging};

pub fn address(server: &Server) -> SocketAddr {
    let (_, address) = server.url.split_once("://").expect("a URL");
    address.parse().expect("an address")
}

/// A connection whose receive buffer is as small as the system allows, so that a reader who stops is soon noticed.
pub async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a buffer");
    socket.connect(address).await.expect("the server listens")
}

pub fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Sends bytes, a few at a time with pauses, until the server has had enough; then all that it said.
pub async fn trickle(mut connection: TcpStream, bytes: &[u8]) -> String {
    for part in bytes.chunks(1) {
        if connection.write_all(part).await.is_err() {
            break;
        }
        let mut said = vec![0; 4_096];
        let pause = std::time::Duration::from_millis(50);
        if let Ok(read) = tokio::time::timeout(pause, connection.read(&mut said)).await {
            said.truncate(read.unwrap_or(0));
            let mut text = String::from_utf8(said).expect("UTF-8");
            text += &read_to_end(&mut connection).await;
            return text;
        }
    }
    read_to_end(&mut connection).await
}

/// What the server says until it closes the connection, or breaks it.
pub async fn read_to_end(connection: &mut TcpStream) -> String {
    let mut said = Vec::new();
    drop(not_hanging("the end of a connection", connection.read_to_end(&mut said)).await);
    String::from_utf8(said).expect("UTF-8")
}
