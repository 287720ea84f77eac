// Package rc connects queue pairs over TCP, by default of the type RC.
//
//	conn, err := rc.Dial(ctx, "10.0.0.1:18515", rc.Config{
//		Prepare: func(c *rc.Conn) error { … register memory, post receives … },
//	})
//	defer conn.Close()
//	err = conn.Read(ctx, mr.Slice(0, 64), region, 4096)
//	err = conn.Finish(ctx)
//
// Both ends take the same steps, and report a failure to each other:
//
//  1. TCP connects; hello: role, job, parameters
//  2. device, GID, protection domain, completion queues, queue pairs
//  3. RESET→INIT, then Config.Prepare registers memory and posts receives
//  4. endpoints and regions are exchanged; barrier "receives posted"
//  5. INIT→RTR and RTR→RTS, with the smaller path MTU and the peer's numbers
//  6. barrier "in RTS": from here on either may send
//
// At the end Finish meets the peer in the barrier "done", and Close drains the queues and frees
// everything. [Config].Exchange replaces the hello and steps 4 to 6 for programs that speak
// another format.
//
// # Requests
//
// [Conn.Send], [Conn.Recv], [Conn.Write], [Conn.Read] and the atomics do one request in one call,
// from any number of goroutines; [Conn.Do] does any request. Programs that stream post batches to
// [Conn.QP] and take the completions from [Conn.WaitSends] and [Conn.WaitRecvs]. Both ways work
// beside each other.
//
// # Servers
//
// [Listen], [Listener.Accept] and [Incoming.Connect] make one Conn at a time, each with objects
// of its own. A [Server] has one domain, one set of completion queues, and memory that is
// registered once, for all its Conns; [Server.Serve] runs a handler for each and ends gracefully.
//
// # Watching
//
// Config.Logger gets a record for each thing that happens. Its attributes are "event", the kind
// ("qp.transition"); "verb", the C call; "path": control ("slow"), the setting up of data transfer
// ("fast"), data ("data") or a dump ("info"); and others that depend on the kind. Dumps have
// the level Debug, the messages of a farewell one below it.
//
// # Examples
//
//	Example               a client sends a text to a server
//	ExampleConn_Write     WRITE to the peer's region, in one call
//	ExampleInFlightError  a request that was canceled, and its buffer
//	ExampleServer         a cache that clients READ, with memory that is registered once
package rc
