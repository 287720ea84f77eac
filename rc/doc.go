// Package rc connects queue pairs over TCP, by default of the type RC.
//
//	conn, err := rc.Dial(ctx, "10.0.0.1:18515", rc.Config{
//		Prepare: func(c *rc.Conn) error { … register memory, post receives … },
//	})
//	defer conn.Close()
//	err = conn.Read(ctx, mr.Slice(0, 64), region, 4096)
//	err = conn.Finish(ctx)
//
// Both ends take the same steps and report a failure to each other:
//
//  1. TCP connects; hello: role, job, parameters
//  2. device, GID, protection domain, completion queues, queue pairs
//  3. RESET→INIT, then Config.Prepare registers memory and posts receives
//  4. exchange of endpoints and regions; barrier "receives posted"
//  5. INIT→RTR and RTR→RTS, with the smaller path MTU and the peer's numbers
//  6. barrier "in RTS": from here on both may send
//
// At the end Finish meets the peer in a barrier, and Close frees everything.
//
// # Requests
//
// Send, Recv, Write, Read and the atomics do one request per call; [Conn.Do] does any request.
// A program that streams posts batches to [Conn.QP] and calls [Conn.WaitSends] and
// [Conn.WaitRecvs]. A program may use both ways at the same time.
//
// # Logs
//
// Config.Logger gets a record of each event. The attribute "event" is its kind, "verb" the C
// call, and "path" is "control", "data" (work requests and completions) or "info".
// Failures have the level Error, shortages Warn, the device's asynchronous events Info, and the steps
// of a connection Debug. Dumps have slog.LevelDebug-4. Keys and addresses of memory are redacted in
// the records of steps, unless the Logger is enabled for slog.LevelDebug-12.
//
// # Examples
//
//	Example               a client sends a text to a server
//	ExampleConn_Write     WRITE to the peer's region, in one call
//	ExampleInFlightError  a canceled request, and when its buffer is free
//	ExampleServer         a cache that clients READ, with memory that is registered once
package rc
