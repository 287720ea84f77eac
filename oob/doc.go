// Package oob is the conversation two programs hold over TCP before, during
// and after an RDMA connection: the "out-of-band" exchange.
//
// A queue pair cannot be connected before each end knows the other's queue
// pair number, first packet sequence number, address and path MTU; and an
// RDMA READ or WRITE needs the address, length and rkey of the peer's memory.
// None of that can travel over the queue pair it sets up, so it goes over an
// ordinary TCP connection:
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
// Both ends call the same methods in the same order, and both may write
// first. Each message is one Write of one length-limited frame; the bytes are
// described in docs/oob-protocol.md.
//
// # Failure
//
// An end that fails calls [Conn.Fail], and the other end's pending call
// returns a [*PeerError] with the reason, so both programs print why. While
// no call is pending, [Conn.Watch] gives a context that is cancelled, with
// the cause, as soon as the peer fails, dies or closes. A silent peer ends in
// a [*TimeoutError] which names the step waited for; a peer that is no peer
// at all (an HTTP server, an SSH daemon) in a [*ProtocolError] that matches
// [ErrForeignPeer] and says what it looks like.
//
// The package knows nothing of verbs: a GID is sixteen raw bytes.
//
// # Security
//
// The exchange is plain TCP, without authentication or encryption. Who can
// read it learns rkeys and addresses, and RDMA itself gives whoever holds
// them the memory. Use it on trusted networks.
package oob
