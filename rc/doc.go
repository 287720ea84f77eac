// Package rc connects queue pairs, by default of the type RC: [Dial] and [Listen] put verbs,
// qpstate and oob together.
//
//	conn, err := rc.Dial(ctx, "10.0.0.1:18515", rc.Config{
//		Prepare: func(c *rc.Conn) error { … register memory, post receives … },
//	})
//	defer conn.Close()
//	err = conn.QP().PostSend(…)
//	wc, err := conn.WaitSend(ctx)
//	err = conn.Finish(ctx)
//
// Both ends take the same steps, and report a failure to each other:
//
//  1. TCP connects; hello: role, job, parameters
//  2. device, GID, protection domain, completion queues, queue pairs
//  3. RESET→INIT, then Config.Prepare registers memory and posts receives
//  4. endpoints (one for each queue pair) and regions are exchanged; barrier "receives posted"
//  5. INIT→RTR and RTR→RTS, with the smaller path MTU and the peer's numbers
//  6. barrier "in RTS": from here on either may send
//
// The end is in steps too: Finish meets the peer in the barrier "done"; Close
// moves the queue pair to ERR, drains it and frees everything; then, if a
// function was given to Conn.Farewell at both ends, these talk over TCP, which
// is closed last.
//
// No RDMA connection manager takes part; everything that a queue pair must know
// of its peer went over TCP.
//
// # Other formats
//
// A program that speaks another format over TCP is talked to by Config.Exchange:
// it takes the place of the hello and of steps 4 to 6. Everything before and after
// is the same.
//
// # Watching
//
// Config.Logger gets a record for each thing that happens, with these
// attributes: "event" names its kind ("qp.transition"), "verb" the C call it
// stands for, "path" whether it is control ("slow"), the setting up of data
// transfer ("fast"), data ("data") or a dump ("info"). The rest depends on the
// kind. Dumps have the level Debug, the messages of a farewell one below it.
//
// # Examples
//
//	Example  a client sends a text to a server
package rc
