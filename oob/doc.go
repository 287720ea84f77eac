// Package oob implements the out-of-band exchange: the messages that two programs send
// over TCP before, during and after an RDMA connection.
//
// To connect a queue pair, each side must know the peer's queue pair number, first packet
// sequence number, address and path MTU. An RDMA READ or WRITE needs the address, length
// and rkey of the peer's memory. This data cannot travel over a queue pair that is not
// connected yet. It travels over an ordinary TCP connection:
//
//	client                                    server
//	Dial                                      Listen, Accept
//	Hello            <- role, job ->          Hello
//	ExchangeEndpoint <- QPN, PSN, GID ->      ExchangeEndpoint
//	ExchangeRegions  <- address, rkey ->      ExchangeRegions
//	Barrier "in RTS" <- same name ->          Barrier "in RTS"
//	Watch                 (RDMA)              Watch
//	Barrier "done"   <- same name ->          Barrier "done"
//	Close                                     Close
//
// Both sides call the same methods in the same order. Either side may write first. Each
// message is one frame of limited length, sent in one Write. docs/oob-protocol.md
// describes the bytes.
//
// # Failure
//
// A side that fails calls [Conn.Fail]. The peer's pending call then returns a
// [*PeerError] with the reason, so both programs can print it. While no call is pending,
// [Conn.Watch] gives a context that is canceled as soon as the peer fails, exits or
// closes. If the peer stays silent, the call returns a [*TimeoutError] that names the
// step. If the peer is another kind of program, such as an HTTP server, the call returns
// a [*ProtocolError] that matches [ErrForeignPeer] and names the likely program.
//
// The package does not depend on package verbs: a GID is sixteen raw bytes.
//
// # Security
//
// The exchange is plain TCP, without authentication or encryption. Anyone who can read
// the traffic learns the rkeys and addresses, and can use them to access the memory. Use
// a plain exchange on trusted networks only, or TLS: see [Conn.Wrap].
//
// # Examples
//
//	Example            both sides of a run in one program
//	ExampleConn_Watch  waiting for RDMA until the peer closes or fails
package oob
