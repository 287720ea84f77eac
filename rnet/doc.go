// Package rnet has a [net.Conn] and a [net.Listener] over queue pairs. Programs that know nothing
// of RDMA, such as HTTP and gRPC servers, run on it: on RDMA hardware, on the kernel's rdma_rxe,
// and on [softroce].
//
//	ln, err := rnet.Listen("rdma", ":18516")          // as net.Listen
//	conn, err := rnet.Dial("rdma", "10.0.0.1:18516")  // as net.Dial
//
// A [Dialer] and a [ListenConfig] hold the choices. [Dialer.DialContext] has the signature that
// http.Transport.DialContext wants; grpc.WithContextDialer wants it without the network.
//
// # How data travels
//
// Each end lends the peer a ring of its memory. Write copies the caller's bytes into a ring of the
// same size at this end, the staging ring. The device WRITEs them to the same place in the peer's
// ring, with an immediate that has their length. The peer's Read copies them out of its ring and
// reports the space that is free again, mostly in the immediates of its own data. So a Conn uses the
// same memory at any load, and a slow reader stops the writer. docs/rnet-protocol.md describes the
// bytes.
//
// The addresses, keys and queue pair numbers travel over a TCP connection, which package rc makes.
// The TCP connection stays open: its end reports at once that the peer's process has ended.
//
// # Differences from TCP
//
//   - A Conn has no SyscallConn, because it has no file descriptor that carries its data.
//   - net.Buffers.WriteTo calls Write for each buffer. [Conn.WriteBuffers] joins them.
//   - Close waits until the peer's device has what was written, because the kernel does not send it
//     after the end of the process. What does not fit into the peer's ring is lost with the process.
//   - While four messages are on their way, small writes are collected. They leave in one message when
//     a completion comes. If no call of the program waits for completions, rnet begins to wait after at
//     most 0.5 ms. [Conn.Flush] waits until all has arrived.
//   - Both ends pin their rings: 4 MiB per end of a Conn, unless [Config].Ring says otherwise.
//
// # Security
//
// The exchange over TCP is plain unless Config.TLSConfig is set. The data over RDMA is never
// encrypted. A peer can write to its ring and nowhere else; what Read and WriteTo give to the program
// are copies. A peer that breaks the protocol ends its own Conn with an error that matches EPROTO.
//
// # Examples
//
//	Example           an echo over a Conn
//	Example_http      a web server and its client
//
// [softroce]: https://pkg.go.dev/github.com/rawverbs/rawverbs/softroce
package rnet
