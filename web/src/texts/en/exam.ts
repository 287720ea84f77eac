// The texts of the final examination. web/API.md has the keys; cmd/internal/lab/workbench/exam.go has the tasks.
export const exam = {
  // 1
  "exam-init.title": "A packet for a queue pair in INIT",
  "exam-init.ask": "The server's queue pair is in INIT and has a receive posted. The client, in RTS, sends it a message. What does the server's device do?",
  "exam-init.answer.1": "It fills the receive, and reports it when the queue pair is in RTR.",
  "exam-init.answer.2": "It answers RNR NAK, because the queue pair is not ready.",
  "exam-init.answer.3": "It drops the packet without an answer.",
  "exam-init.wrong.1": "A queue pair in INIT serves no packet. Its receives wait, untouched.",
  "exam-init.wrong.2": "RNR NAK means that no receive is posted, and a queue pair sends it only from RTR on. In INIT it answers nothing.",
  "exam-init.why": "Before RTR a queue pair answers nothing. The client's device sends again after TIMEOUT, RETRY_CNT times at most. If the server has reached RTR by then, the message arrives late; if not, the request ends in RETRY_EXC_ERR.",

  // 2
  "exam-drain.title": "A longer timeout",
  "exam-drain.ask": "Both queue pairs are in RTS, and the client's SEND 1 is on the wire. Set TIMEOUT of the client's queue pair to 18 and lose nothing: the SEND must succeed.",
  "exam-drain.goal.timeout": "The client's queue pair is in RTS with TIMEOUT 18.",
  "exam-drain.goal.sent": "The success of SEND 1 is polled at the client.",
  "exam-drain.why": "RTS takes no TIMEOUT. Move to SQD, let the SEND end, change TIMEOUT by a move SQD→SQD, and go back to RTS. A way through RESET throws the SEND away.",

  // 3
  "exam-psns.title": "Which PSN comes next",
  "exam-psns.ask": "The path MTU is 1024, and the client's next PSN is 0x100. The client posts a SEND of 3000 bytes, and then a SEND of 1 byte. Which PSN does the second message have?",
  "exam-psns.answer.1": "0x101",
  "exam-psns.answer.2": "0x103",
  "exam-psns.answer.3": "0xcb8",
  "exam-psns.wrong.1": "PSNs count packets, not messages. 3000 bytes need more than one packet.",
  "exam-psns.wrong.3": "PSNs count packets. 0xcb8 is 0x100 plus 3000: that would count bytes, as TCP does.",
  "exam-psns.why": "3000 bytes are three packets: two of 1024 bytes and one of 952. They take the PSNs 0x100, 0x101 and 0x102.",

  // 4
  "exam-rnr.title": "Receiver not ready",
  "exam-rnr.ask": "The server has one receive posted. Make its device answer RNR NAK, and then let every request of the client succeed, without RESET.",
  "exam-rnr.goal.nak": "The server's device answers RNR NAK.",
  "exam-rnr.goal.sent": "After that, the success of a SEND is polled at the client, and no request is left in its send queue.",
  "exam-rnr.why": "Two SENDs and one receive: the second SEND finds none. RNR_RETRY is 7 here, which means no limit, so the client's device sends again until the server posts another receive.",

  // 5
  "exam-check.title": "Who checks the rkey",
  "exam-check.ask": "A client posts an RDMA_WRITE with a wrong rkey. Who finds the mistake?",
  "exam-check.answer.1": "The client's device, when the request is posted.",
  "exam-check.answer.2": "The server's device, when the packet arrives.",
  "exam-check.answer.3": "The server's program, when it looks at its memory.",
  "exam-check.wrong.1": "The client's device knows its own keys only. It puts the rkey into the packet as it is.",
  "exam-check.wrong.3": "The device checks before it writes, so nothing reaches the memory. And a WRITE does not wake the server's program.",
  "exam-check.why": "The device that owns the memory checks the key, the bounds, the PD and the rights before it touches a byte. It answers with a NAK, the client's request completes with REM_ACCESS_ERR, and both queue pairs go to ERR.",

  // 6
  "exam-rights.title": "A READ that would be refused",
  "exam-rights.ask": "The server's text is at offset 128 of its `buf`, 18 bytes. As things are, the server's device would refuse a READ of it, although the region permits it. Find out why, and READ the text into the client's `buf`.",
  "exam-rights.goal.read": "The text is in the client's `buf`, and the success of the READ is polled.",
  "exam-rights.why": "Two things permit a READ: the rights of the region, and the ACCESS_FLAGS of the server's queue pair, which lack REMOTE_READ here. A move RTS→RTS changes ACCESS_FLAGS while the connection lives. After a refused READ both ends are in ERR, and come back through RESET.",

  // 7
  "exam-signal.title": "Unsignaled requests",
  "exam-signal.ask": "A program posts four SENDs to an RC queue pair. Only the last has the flag SIGNALED. The program polls one completion, SUCCESS. What does it know of the first three?",
  "exam-signal.answer.1": "They are complete too, and their buffers are free.",
  "exam-signal.answer.2": "Nothing: it must ask for each with `ibv_query_qp`.",
  "exam-signal.answer.3": "They have left, but may still be lost.",
  "exam-signal.wrong.2": "`ibv_query_qp` returns the attributes of the queue pair. No call asks for a single request.",
  "exam-signal.wrong.3": "The peer acknowledges in order. The fourth is complete only after the three before it were acknowledged.",
  "exam-signal.why": "A send queue completes its requests in order, so one completion speaks for all unsignaled requests before it. If one of them had failed, it would have a completion of its own: errors are always reported.",

  // 8
  "exam-notice.title": "Written and noticed",
  "exam-notice.ask": "With one request, WRITE the client's text, 21 bytes at offset 0, into the server's `buf`. The server's program must learn of it from a completion with the immediate 42.",
  "exam-notice.goal.notice": "The immediate 42 of the WRITE is polled at the server, and the text is in its memory.",
  "exam-notice.why": "RDMA_WRITE_WITH_IMM writes, and takes a receive of the server for its completion. Without a receive the server's device answers RNR NAK.",

  // 9
  "exam-flushed.title": "Nothing but flushes",
  "exam-flushed.ask": "A server polls three completions, all WR_FLUSH_ERR. No other failure came before them. Where is the cause?",
  "exam-flushed.answer.1": "In the first of the three requests.",
  "exam-flushed.answer.2": "In the CQ, which is too small.",
  "exam-flushed.answer.3": "Not in these requests: something else has moved the queue pair to ERR.",
  "exam-flushed.wrong.1": "WR_FLUSH_ERR says that the queue pair had stopped before the request was complete. None of the three has a fault of its own.",
  "exam-flushed.wrong.2": "A CQ that overruns loses completions, and an asynchronous event reports it. Here all three completions came.",
  "exam-flushed.why": "A queue pair that goes to ERR flushes what is posted. The program may have moved it, or the device may have refused a request of the peer; an asynchronous event may name the reason. Look at the peer's completions and at the events.",

  // 10
  "exam-recover.title": "Back from ERR",
  "exam-recover.ask": "A request has failed, and both queue pairs are in ERR. Bring the connection back, and deliver a message of the client.",
  "exam-recover.goal.sent": "The success of a SEND is polled at the client.",
  "exam-recover.goal.received": "The completion of its receive is polled at the server.",
  "exam-recover.why": "Only RESET leads out of ERR, and both ends must go through it, because their packet numbers must begin anew together. RESET has emptied the queues, so the server posts a receive before the client sends.",

  // 11
  "exam-mask.title": "A value without its bit",
  "exam-mask.ask": "A program sets `min_rnr_timer` to 12 in the structure, but leaves MIN_RNR_TIMER out of the mask of INIT→RTR. What happens?",
  "exam-mask.answer.1": "The call returns EINVAL, and the queue pair stays in INIT.",
  "exam-mask.answer.2": "The move succeeds, and the timer is 12.",
  "exam-mask.answer.3": "The move succeeds, and the timer is 0.",
  "exam-mask.wrong.2": "The device reads a field only if its bit is in the mask.",
  "exam-mask.wrong.3": "INIT→RTR requires MIN_RNR_TIMER. A move without a required bit is refused as a whole.",
  "exam-mask.why": "The mask is checked first: if a required bit is missing or a forbidden one is there, nothing changes. A kernel returns EINVAL alone, without the name of the bit.",

  // 12
  "exam-silent.title": "Nothing answers",
  "exam-silent.ask": "The client's SEND has ended in RETRY_EXC_ERR. The server has a receive posted, and the client got no NAK. Find out why nothing answers, mend it, and deliver a message.",
  "exam-silent.goal.sent": "The success of a SEND is polled at the client.",
  "exam-silent.why": "The server's device dropped the packets: it has no queue pair with the number in the client's DEST_QPN. Compare the attributes of the client's queue pair with what the peer has told. DEST_QPN is set at INIT→RTR only, so the client goes through RESET. The server has served nothing, and may stay as it is.",

  // 13
  "exam-damage.title": "A damaged packet",
  "exam-damage.ask": "One bit in the payload of an RC SEND is inverted on the way. What does the client's program see?",
  "exam-damage.answer.1": "An error: the server's device reports the damage.",
  "exam-damage.answer.2": "A success, and the server has a wrong byte.",
  "exam-damage.answer.3": "A success, only later.",
  "exam-damage.wrong.1": "Nothing in a damaged packet can be trusted, not even its sender. The server's device drops it without an answer.",
  "exam-damage.wrong.2": "The ICRC covers the payload. The server's device checks it before it touches the memory.",
  "exam-damage.why": "The server's device drops the packet, because its ICRC is wrong. No answer comes, so the client's device sends it again after TIMEOUT. The program sees one SUCCESS.",

  // 14
  "exam-twice.title": "Sent twice, received once",
  "exam-twice.ask": "Let a message of the client reach the server's device twice and its memory once, and let the SEND succeed.",
  "exam-twice.goal.twice": "The server's device counts a packet as a duplicate.",
  "exam-twice.goal.sent": "After that, the success of a SEND is polled at the client.",
  "exam-twice.why": "Lose the acknowledgement, not the request. After TIMEOUT the client's device sends again. The server's device knows the PSN, drops the packet and acknowledges it again. Duplicating the packet on the wire works too.",

  // 15
  "exam-closed.title": "A region that is gone",
  "exam-closed.ask": "A server tells the client its region, and then deregisters it. The client posts an RDMA_WRITE to it. What happens?",
  "exam-closed.answer.1": "The request completes with REM_ACCESS_ERR, and both queue pairs go to ERR.",
  "exam-closed.answer.2": "The request completes with SUCCESS: the memory is still there.",
  "exam-closed.answer.3": "The server's device answers RNR, until the region is registered again.",
  "exam-closed.wrong.2": "The memory may be there, but the key is not: the device dropped the rkey when the region was deregistered.",
  "exam-closed.wrong.3": "RNR is about receives, and a WRITE takes none. Besides, a new registration has a new key.",
  "exam-closed.why": "The rkey belongs to the registration. After the deregistration no region has this key, and the server's device refuses the request. So a server first stops its clients, and then deregisters.",

  // 16
  "exam-bounds.title": "The right key, and yet refused",
  "exam-bounds.ask": "Post a request that has the right rkey of the server's `buf`, but that the server's device refuses.",
  "exam-bounds.goal.refused": "REM_ACCESS_ERR is polled at the client, and the key was that of a region.",
  "exam-bounds.why": "The key is only the first check. `buf` has 256 bytes, and a request that reaches beyond its end is refused. So is one that the rights of the region do not permit.",

  // 17
  "exam-overrun.title": "A CQ that is too short",
  "exam-overrun.ask": "A CQ has a depth of 4. Six signaled requests complete, and the program has not polled. What happens?",
  "exam-overrun.answer.1": "The device keeps two completions back until the program polls.",
  "exam-overrun.answer.2": "The CQ overruns: a completion is lost, and its queue pair goes to ERR.",
  "exam-overrun.answer.3": "The two oldest completions are replaced.",
  "exam-overrun.wrong.1": "The device waits for no program. A completion that finds no place has nowhere to go.",
  "exam-overrun.wrong.3": "A program must learn of every completion in order. Silent replacement would leave buffers in use and hide errors.",
  "exam-overrun.why": "The device reports the event IBV_EVENT_CQ_ERR, and what found no place is lost. So the depth must suffice for all requests that can be outstanding on all queue pairs of the CQ.",

  // 18
  "exam-full.title": "A full send queue",
  "exam-full.ask": "The client's send queue has room for 8 requests. Fill it until a post is refused, and then post again with success.",
  "exam-full.goal.full": "A post at the client is refused with ENOMEM.",
  "exam-full.goal.again": "After that, a post at the client succeeds.",
  "exam-full.why": "A place becomes free when the completion of its request, or of a later one, is polled: run the clock and poll. Most NICs do the same. A program should count its requests, and not post until ENOMEM comes.",

  // 19
  "exam-retries.title": "What RETRY_EXC_ERR says",
  "exam-retries.ask": "A request completes with RETRY_EXC_ERR. Which fault fits?",
  "exam-retries.answer.1": "The client's DEST_QPN is not the server's queue pair.",
  "exam-retries.answer.2": "The server has posted no receive.",
  "exam-retries.answer.3": "The rkey is wrong.",
  "exam-retries.wrong.2": "Then the server's device answers RNR NAK, and the request ends in RNR_RETRY_EXC_ERR, if it ends at all.",
  "exam-retries.wrong.3": "The server's device answers a wrong rkey with a NAK, and the request ends in REM_ACCESS_ERR.",
  "exam-retries.why": "RETRY_EXC_ERR means that no acknowledgement came in all retries: a wrong GID or QPN, a peer that is not yet in RTR or already in ERR, or a network that loses everything.",

  // 20
  "exam-flush.title": "The buffers back",
  "exam-flush.ask": "The server's program wants its three posted receives back. No request has failed. Get their completions.",
  "exam-flush.goal.flushed": "Three flushed receives are polled at the server, with one call.",
  "exam-flush.why": "Only a queue pair in ERR gives its receives back: move it there, and poll. RESET empties the queue without completions.",
} as const;
