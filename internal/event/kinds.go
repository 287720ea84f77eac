// The list of all kinds of events. docs/record.md has it as lists with the attributes
// of each; a test compares the two.

package event

// Names that two kinds share, because their verbs differ.
const (
	objectMade = "object.made"
	wrPosted   = "wr.posted"
	waitBegun  = "wait.begun"
)

// A run and its device.
var (
	// DeviceOpened: the command has opened the device of its run.
	DeviceOpened = Kind{"device.opened", Control, "ibv_open_device"}
	// PortQueried: the command has read the attributes of the device's port.
	PortQueried = Kind{"port.queried", Control, "ibv_query_port"}
	// DeviceQueried: a job has read what the device can do.
	DeviceQueried = Kind{"device.queried", Control, "ibv_query_device"}
	// CaptureBegun: packets are written to a file from here on.
	CaptureBegun = Kind{"capture.begun", Control, NoVerb}
	// ServerListening: the server accepts connections from here on.
	ServerListening = Kind{"server.listening", Control, TCP}
	// ServerUnauthenticated: the server listens on more than loopback, without TLS.
	ServerUnauthenticated = Kind{"server.unauthenticated", Control, NoVerb}
	// ServerReachable: without an event of the device, clients can no longer connect to the server, or can again.
	ServerReachable = Kind{"server.reachable", Control, NoVerb}
	// CertificateRead: the files of the server's certificate have changed, and new clients get the new one. Or SIGHUP came and they have not.
	CertificateRead = Kind{"certificate.read", Control, NoVerb}
	// CertificateKept: the files have changed and cannot be used, so the server keeps the certificate that it has.
	CertificateKept = Kind{"certificate.kept", Control, NoVerb}
	// CertificateExpires: the server's certificate expires soon, or is not valid now.
	CertificateExpires = Kind{"certificate.expires", Control, NoVerb}
	// MetricsServed: Prometheus can read the server's counts from here on.
	MetricsServed = Kind{"metrics.served", Control, TCP}
	// ServerStopping: a signal stops the server, and the jobs in progress have some time.
	ServerStopping = Kind{"server.stopping", Control, NoVerb}
	// ServerStopped: the server was stopped while it had no client.
	ServerStopped = Kind{"server.stopped", Control, NoVerb}
	// ListenerShort: the listener lacks something to accept a connection with, and pauses.
	ListenerShort = Kind{"listener.short", Control, TCP}
	// PageServed: the server shows its clients to browsers from here on.
	PageServed = Kind{"page.served", Control, TCP}
	// ClientAccepted: the server has accepted the TCP connection of a client, whose first message is here.
	ClientAccepted = Kind{"client.accepted", Control, TCP}
	// ClientFailed: one client of the server has failed.
	ClientFailed = Kind{"client.failed", None, NoVerb}
	// JobChosen: the server has read in the client's hello which job to do.
	JobChosen = Kind{"job.chosen", Control, NoVerb}
	// RunAgain: an attempt has lost its connection, and the client makes another.
	RunAgain = Kind{"run.again", None, NoVerb}
	// RunDone: the job succeeded, and every object of it is freed.
	RunDone = Kind{"run.done", Control, NoVerb}
	// JobFailed: a connected job has failed at this end, and nothing is freed yet.
	JobFailed = Kind{"job.failed", None, NoVerb}
	// RunFailed: the command has failed.
	RunFailed = Kind{"run.failed", None, NoVerb}
)

// A connection.
var (
	// GIDChosen: this end has chosen the address that it uses.
	GIDChosen = Kind{"gid.chosen", Control, "ibv_query_gid_table"}
	// ObjectMade: an object was made, by its own verb.
	ObjectMade = ByVerb{objectMade, Control}
	// RegionMade: a memory region was registered.
	RegionMade = Kind{objectMade, Control, "ibv_reg_mr"}
	// ObjectFreed: an object was destroyed, by its own verb.
	ObjectFreed = ByVerb{"object.freed", Control}
	// QPTransition: a queue pair has moved to another state, or was refused the move.
	QPTransition = Kind{"qp.transition", Control, "ibv_modify_qp"}
	// QPMoved: the device itself has moved a queue pair to another state. Only the laboratory, which has made the device, sees it.
	QPMoved = Kind{"qp.transition", Control, NoVerb}
	// QPDump: all attributes of a queue pair, after a transition.
	QPDump = Kind{"qp.dump", Info, "ibv_query_qp"}
	// QPDrained: the queue pair is in ERR and every work request was flushed.
	QPDrained = Kind{"qp.drained", Control, "ibv_poll_cq"}
	// TCPMessage: a message over TCP was sent or received.
	TCPMessage = Kind{"oob.message", Control, TCP}
	// PeerTuple: the numbers of one end's queue pair are known at both ends.
	PeerTuple = Kind{"peer.tuple", Control, TCP}
	// RegionKnown: memory is offered to the peer, or by it.
	RegionKnown = Kind{"region.known", Control, TCP}
	// PeerDisconnected: the peer has reported over TCP that it has disconnected.
	PeerDisconnected = Kind{"peer.disconnected", Control, TCP}
	// AsyncEvent: the device has reported an asynchronous event.
	AsyncEvent = Kind{"async.event", Control, "ibv_get_async_event"}
)

// Work requests.
var (
	// SendPosted: a request is about to be posted to the send queue.
	SendPosted = Kind{wrPosted, Data, "ibv_post_send"}
	// RecvPosted: a receive is about to be posted, or was posted with others.
	RecvPosted = Kind{wrPosted, Data, "ibv_post_recv"}
	// WRDump: the fields of a request for the send queue.
	WRDump = Kind{"wr.dump", Info, "ibv_post_send"}
	// SGEDump: one element of a request's list of memory.
	SGEDump = Kind{"sge.dump", Info, NoVerb}
	// CompletionAwaited: this end begins to wait for a completion.
	CompletionAwaited = Kind{waitBegun, Info, "ibv_req_notify_cq"}
	// CQEventAwaited: a program asks for an event of a CQ, and waits if there is none.
	CQEventAwaited = Kind{waitBegun, Info, "ibv_get_cq_event"}
	// CompletionEvent: the CQ that was armed has reported a completion.
	CompletionEvent = Kind{"completion.event", Info, "ibv_get_cq_event"}
	// PeerAwaited: this end begins to wait for what the peer does without a completion here.
	PeerAwaited = Kind{waitBegun, Info, NoVerb}
	// WRCompleted: a completion was polled.
	WRCompleted = Kind{"wr.completed", Data, "ibv_poll_cq"}
	// WCDump: the fields of a completion.
	WCDump = Kind{"wc.dump", Info, "ibv_poll_cq"}
	// MemoryDump: the first bytes of a region.
	MemoryDump = Kind{"memory.dump", Info, NoVerb}
)

// Jobs that send, write or read a text.
var (
	// MessageSent: the text of this end is on its way to the peer, or is there to be read.
	MessageSent = Kind{"message.sent", Data, NoVerb}
	// MessageReceived: the text of the peer is here.
	MessageReceived = Kind{"message.received", Data, NoVerb}
	// TextWritten: the WRITE of a text has completed.
	TextWritten = Kind{"text.written", Data, NoVerb}
	// TextRead: the READ of a text has completed.
	TextRead = Kind{"text.read", Data, NoVerb}
	// BuffersMatch: what was read back is what was written.
	BuffersMatch = Kind{"buffers.match", Data, NoVerb}
	// RegionHolds: the server looks at its region after the client's WRITE.
	RegionHolds = Kind{"region.holds", Data, NoVerb}
)

// The exchange jobs.
var (
	// StatesBegin: the two state machines of this end begin.
	StatesBegin = Kind{"states.begin", Info, NoVerb}
	// StateChanged: one of the state machines has moved.
	StateChanged = Kind{"state.changed", Info, NoVerb}
	// ExchangeMessage: a MSG_MR or MSG_DONE is about to be sent, or was received.
	ExchangeMessage = Kind{"exchange.message", Data, NoVerb}
	// RegionFree: the peer needs this end's region no more.
	RegionFree = Kind{"region.free", Info, NoVerb}
	// LeaveEarly: the server leaves before the end, as --leave-early asks.
	LeaveEarly = Kind{"leave.early", Info, NoVerb}
	// LabExplained: a sentence that explains what --leave-early has shown.
	LabExplained = Kind{"lab.explained", Info, NoVerb}
)

// The job atomic.
var (
	// AtomicDone: one operation has changed the counter.
	AtomicDone = Kind{"atomic.done", Data, NoVerb}
	// AtomicLost: a CMP_SWP found another value than it expected, and is repeated.
	AtomicLost = Kind{"atomic.lost", Data, NoVerb}
	// OperationsOmitted: the operations from here on are not logged.
	OperationsOmitted = Kind{"operations.omitted", Data, NoVerb}
	// AtomicsDone: all operations of the client have completed.
	AtomicsDone = Kind{"atomics.done", Data, NoVerb}
	// SumChecked: the counter holds the sum of what the clients added.
	SumChecked = Kind{"sum.checked", Data, NoVerb}
	// CounterSettled: the last client has left.
	CounterSettled = Kind{"counter.settled", Info, NoVerb}
)

// The jobs bulk and file.
var (
	// BulkBegun: the data begins to move.
	BulkBegun = Kind{"bulk.begun", Data, NoVerb}
	// BulkStall: nothing has completed for a while.
	BulkStall = Kind{"bulk.stall", Data, NoVerb}
	// BulkDone: all data has moved, and both ends have the same.
	BulkDone = Kind{"bulk.done", Data, NoVerb}
	// BulkStalled: how often and how long nothing completed, after the job.
	BulkStalled = Kind{"bulk.stalled", Data, NoVerb}
	// FileBegun: a file begins to move.
	FileBegun = Kind{"file.begun", Data, NoVerb}
	// FileSent: the server has reported that it has the file.
	FileSent = Kind{"file.sent", Data, NoVerb}
	// FileStored: the file is on the server's disk.
	FileStored = Kind{"file.stored", Data, NoVerb}
)

// The jobs net-echo and net-stream.
var (
	// NetBegun: data begins to move through a net.Conn.
	NetBegun = Kind{"net.begun", Data, NoVerb}
	// NetDone: both ends have read everything.
	NetDone = Kind{"net.done", Data, NoVerb}
)

// The bench jobs, and pingpong.
var (
	// BenchBegun: a measurement begins.
	BenchBegun = Kind{"bench.begun", Data, NoVerb}
	// BenchHeader: the header of the table of results.
	BenchHeader = Kind{"bench.header", Data, NoVerb}
	// BenchResult: a row of the table of results.
	BenchResult = Kind{"bench.result", Data, NoVerb}
	// BenchChart: the chart is written, or cannot be drawn at this end.
	BenchChart = Kind{"bench.chart", Info, NoVerb}
	// PingpongBandwidth: the result of a pingpong, as bandwidth.
	PingpongBandwidth = Kind{"pingpong.bandwidth", Data, NoVerb}
	// PingpongLatency: the result of a pingpong, as latency.
	PingpongLatency = Kind{"pingpong.latency", Data, NoVerb}
)

// Records.
var (
	// RecordWritten: the client has written the record of its run.
	RecordWritten = Kind{"record.written", Info, NoVerb}
	// RecordFailed: a record could not be written, or not be given to the client.
	RecordFailed = Kind{"record.failed", Info, NoVerb}
	// ReportWritten: the client has written the page that draws its run.
	ReportWritten = Kind{"report.written", Info, NoVerb}
	// RecordGap: events were left out of the record here.
	RecordGap = Kind{"record.gap", Info, NoVerb}
	// Unkinded: something else, logged by other code.
	Unkinded = Kind{"log", None, NoVerb}
)
