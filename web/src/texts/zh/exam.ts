// The texts of the final examination in Chinese; lessons.ts has the terms.
export const exam = {
  // 1
  "exam-init.title": "发给 INIT 队列对的报文",
  "exam-init.ask": "服务端的队列对处于 INIT，并投递了一个接收请求。处于 RTS 的客户端向它发送一条消息。服务端的设备怎么做？",
  "exam-init.answer.1": "把消息放进接收请求，等队列对到了 RTR 再报告。",
  "exam-init.answer.2": "返回 RNR NAK，因为队列对还没有就绪。",
  "exam-init.answer.3": "丢弃报文，不作应答。",
  "exam-init.wrong.1": "处于 INIT 的队列对不处理任何报文。它的接收请求原样等待。",
  "exam-init.wrong.2": "RNR NAK 表示没有接收请求，而且队列对从 RTR 起才会返回它。在 INIT 里它不作任何应答。",
  "exam-init.why": "在 RTR 之前，队列对不作任何应答。客户端的设备在 TIMEOUT 之后重传，最多 RETRY_CNT 次。如果那时服务端已到 RTR，消息只是迟到；否则请求以 RETRY_EXC_ERR 结束。",

  // 2
  "exam-drain.title": "更长的超时",
  "exam-drain.ask": "两个队列对都处于 RTS，客户端的 SEND 1 正在线路上。把客户端队列对的 TIMEOUT 设为 18，并且什么都不能丢：这个 SEND 必须成功。",
  "exam-drain.goal.timeout": "客户端的队列对处于 RTS，TIMEOUT 是 18。",
  "exam-drain.goal.sent": "在客户端轮询到 SEND 1 成功。",
  "exam-drain.why": "在 RTS 里不能改 TIMEOUT。切换到 SQD，让 SEND 做完，用 SQD→SQD 更改 TIMEOUT，再回到 RTS。如果经过 RESET，这个 SEND 就丢了。",

  // 3
  "exam-psns.title": "下一个 PSN",
  "exam-psns.ask": "路径 MTU 是 1024，客户端的下一个 PSN 是 0x100。客户端先投递 3000 字节的 SEND，再投递 1 字节的 SEND。第二条消息的 PSN 是多少？",
  "exam-psns.answer.1": "0x101",
  "exam-psns.answer.2": "0x103",
  "exam-psns.answer.3": "0xcb8",
  "exam-psns.wrong.1": "PSN 按报文计数，不按消息计数。3000 字节不止需要一个报文。",
  "exam-psns.wrong.3": "PSN 按报文计数。0xcb8 是 0x100 加 3000，那就像 TCP 一样按字节计数了。",
  "exam-psns.why": "3000 字节是三个报文：两个 1024 字节，一个 952 字节。它们占用 PSN 0x100、0x101 和 0x102。",

  // 4
  "exam-rnr.title": "接收方未就绪",
  "exam-rnr.ask": "服务端投递了一个接收请求。让它的设备返回 RNR NAK，然后不经过 RESET，让客户端的每个请求都成功。",
  "exam-rnr.goal.nak": "服务端的设备返回 RNR NAK。",
  "exam-rnr.goal.sent": "此后在客户端轮询到 SEND 成功，并且发送队列里没有剩余的请求。",
  "exam-rnr.why": "两个 SEND 和一个接收请求：第二个 SEND 找不到接收请求。这里 RNR_RETRY 是 7，表示没有限制，所以客户端的设备一直重传，直到服务端再投递一个接收请求。",

  // 5
  "exam-check.title": "谁检查 rkey",
  "exam-check.ask": "客户端用错误的 rkey 投递了 RDMA_WRITE。谁会发现这个错误？",
  "exam-check.answer.1": "客户端的设备，在投递时。",
  "exam-check.answer.2": "服务端的设备，在报文到达时。",
  "exam-check.answer.3": "服务端的程序，在查看内存时。",
  "exam-check.wrong.1": "客户端的设备只认得自己的密钥。它把 rkey 原样放进报文。",
  "exam-check.wrong.3": "设备先检查再写入，所以什么也到不了内存。而且 WRITE 不会惊动服务端的程序。",
  "exam-check.why": "拥有这块内存的设备在读写任何字节之前，先检查密钥、边界、PD 和权限。它返回 NAK，客户端的请求以 REM_ACCESS_ERR 完成，两个队列对都进入 ERR。",

  // 6
  "exam-rights.title": "会被拒绝的 READ",
  "exam-rights.ask": "服务端的文本在它的 `buf` 偏移 128 处，长 18 字节。按目前的设置，服务端的设备会拒绝 READ，尽管内存区域允许。找出原因，把文本 READ 到客户端的 `buf`。",
  "exam-rights.goal.read": "文本已在客户端的 `buf` 里，并轮询到 READ 成功。",
  "exam-rights.why": "READ 要两处都允许：一是内存区域的权限，二是服务端队列对的 ACCESS_FLAGS，后者在这里缺少 REMOTE_READ。RTS→RTS 可以在不断开连接的情况下更改 ACCESS_FLAGS。READ 被拒绝之后，两端都在 ERR，要经过 RESET 才能恢复。",

  // 7
  "exam-signal.title": "不带 SIGNALED 的请求",
  "exam-signal.ask": "程序向一个 RC 队列对投递四个 SEND，只有最后一个带 SIGNALED 标志。它轮询到一个完成项：SUCCESS。关于前三个，程序知道什么？",
  "exam-signal.answer.1": "它们也已完成，缓冲区可以再用。",
  "exam-signal.answer.2": "什么也不知道：要用 `ibv_query_qp` 逐个查询。",
  "exam-signal.answer.3": "它们的报文已经发出，但仍可能丢失。",
  "exam-signal.wrong.2": "`ibv_query_qp` 返回的是队列对的属性。没有哪个调用能查询单个请求。",
  "exam-signal.wrong.3": "对端按顺序确认。前三个都得到确认之后，第四个才会完成。",
  "exam-signal.why": "发送队列按顺序完成请求，所以一个完成项也代表它之前所有不带 SIGNALED 的请求。其中如果有一个失败，它会有自己的完成项：错误总会报告。",

  // 8
  "exam-notice.title": "写入并通知",
  "exam-notice.ask": "用一个请求，把客户端偏移 0 处的 21 字节文本 WRITE 到服务端的 `buf`。服务端的程序要靠一个立即数为 42 的完成项得知数据已写入。",
  "exam-notice.goal.notice": "在服务端轮询到这个 WRITE 的立即数 42，并且文本已在它的内存里。",
  "exam-notice.why": "RDMA_WRITE_WITH_IMM 在写入的同时，消耗服务端的一个接收请求来产生完成项。没有接收请求，服务端的设备就返回 RNR NAK。",

  // 9
  "exam-flushed.title": "全是 flush",
  "exam-flushed.ask": "服务端轮询到三个完成项，全是 WR_FLUSH_ERR，在它们之前没有别的失败。原因在哪里？",
  "exam-flushed.answer.1": "在三个请求中的第一个里。",
  "exam-flushed.answer.2": "CQ 太小。",
  "exam-flushed.answer.3": "不在这些请求里：是别的原因使队列对进入 ERR。",
  "exam-flushed.wrong.1": "WR_FLUSH_ERR 表示请求还没有完成，队列对就已停下。三个请求本身都没有错。",
  "exam-flushed.wrong.2": "CQ 溢出会丢失完成项，并由异步事件报告。这里三个完成项都到了。",
  "exam-flushed.why": "队列对进入 ERR 时，会 flush 所有已投递的请求。可能是程序自己切换的，也可能是设备拒绝了对端的请求；异步事件也许会说明原因。去看对端的完成项和异步事件。",

  // 10
  "exam-recover.title": "从 ERR 恢复",
  "exam-recover.ask": "一个请求失败了，两个队列对都在 ERR。恢复连接，并送达客户端的一条消息。",
  "exam-recover.goal.sent": "在客户端轮询到 SEND 成功。",
  "exam-recover.goal.received": "在服务端轮询到它的接收请求的完成项。",
  "exam-recover.why": "离开 ERR 只能经过 RESET，而且两端都要经过，因为报文序号必须一起重新开始。RESET 清空了队列，所以在客户端发送之前，服务端要先投递接收请求。",

  // 11
  "exam-mask.title": "有值，却没有位",
  "exam-mask.ask": "程序在结构体里把 `min_rnr_timer` 设为 12，却没有把 MIN_RNR_TIMER 放进 INIT→RTR 的掩码。会发生什么？",
  "exam-mask.answer.1": "调用返回 EINVAL，队列对仍在 INIT。",
  "exam-mask.answer.2": "转换成功，定时器是 12。",
  "exam-mask.answer.3": "转换成功，定时器是 0。",
  "exam-mask.wrong.2": "设备只读取掩码里有对应位的字段。",
  "exam-mask.wrong.3": "INIT→RTR 必须有 MIN_RNR_TIMER。缺少必需的位，整个转换都会遭到拒绝。",
  "exam-mask.why": "首先检查掩码：缺少必需的位，或者有禁止的位，就什么也不改变。内核只返回 EINVAL，不说是哪一位。",

  // 12
  "exam-silent.title": "没有应答",
  "exam-silent.ask": "客户端的 SEND 以 RETRY_EXC_ERR 结束。服务端已投递接收请求，客户端也没有收到 NAK。找出没有应答的原因，改正它，并送达一条消息。",
  "exam-silent.goal.sent": "在客户端轮询到 SEND 成功。",
  "exam-silent.why": "服务端的设备丢弃了报文：服务端没有编号等于客户端 DEST_QPN 的队列对。比较一下客户端队列对的属性和对端告知的内容，就能看出来。DEST_QPN 只能在 INIT→RTR 时设置，所以客户端要经过 RESET。服务端还没有处理过任何报文，可以保持不变。",

  // 13
  "exam-damage.title": "损坏的报文",
  "exam-damage.ask": "一个 RC SEND 的载荷在途中有一位翻转了。客户端的程序会看到什么？",
  "exam-damage.answer.1": "一个错误：服务端的设备报告了损坏。",
  "exam-damage.answer.2": "成功，但服务端有一个错误的字节。",
  "exam-damage.answer.3": "成功，只是晚一些。",
  "exam-damage.wrong.1": "损坏的报文里什么都不可信，连发送方是谁也不可信。服务端的设备丢弃它，不作应答。",
  "exam-damage.wrong.2": "ICRC 覆盖载荷，服务端的设备在写内存之前会先检查它。",
  "exam-damage.why": "ICRC 错误，所以服务端的设备丢弃报文。由于没有应答，客户端的设备在 TIMEOUT 之后重传。程序只看到一个 SUCCESS。",

  // 14
  "exam-twice.title": "发送两次，收到一次",
  "exam-twice.ask": "让客户端的一条消息两次到达服务端的设备，但只有一次进入内存，并且让 SEND 成功。",
  "exam-twice.goal.twice": "服务端的设备把一个报文计为重复。",
  "exam-twice.goal.sent": "此后在客户端轮询到 SEND 成功。",
  "exam-twice.why": "丢掉确认，而不是请求。TIMEOUT 之后，客户端的设备重传。服务端的设备认得这个 PSN，于是丢弃报文，再确认一次。在线路上复制这个报文也行。",

  // 15
  "exam-closed.title": "已经注销的内存区域",
  "exam-closed.ask": "服务端把内存区域告诉客户端，然后注销了它。客户端向它投递 RDMA_WRITE。会发生什么？",
  "exam-closed.answer.1": "请求以 REM_ACCESS_ERR 完成，两个队列对都进入 ERR。",
  "exam-closed.answer.2": "请求以 SUCCESS 完成：内存还在。",
  "exam-closed.answer.3": "服务端的设备返回 RNR，直到重新注册。",
  "exam-closed.wrong.2": "内存也许还在，密钥却没有了：注销内存区域时，设备就删除了它的 rkey。",
  "exam-closed.wrong.3": "RNR 说的是接收请求，而 WRITE 不消耗接收请求。而且重新注册会得到新的密钥。",
  "exam-closed.why": "rkey 属于那一次注册。注销之后，没有内存区域拥有这个密钥，服务端的设备就拒绝请求。所以服务端要先让客户端停下来，再注销。",

  // 16
  "exam-bounds.title": "密钥正确，仍被拒绝",
  "exam-bounds.ask": "投递一个请求，rkey 用服务端 `buf` 的正确 rkey，却让服务端的设备拒绝它。",
  "exam-bounds.goal.refused": "在客户端轮询到 REM_ACCESS_ERR，并且密钥属于某个内存区域。",
  "exam-bounds.why": "密钥只是第一项检查。`buf` 有 256 字节，超出末尾的请求会遭到拒绝；内存区域的权限不允许的请求也一样。",

  // 17
  "exam-overrun.title": "CQ 太小",
  "exam-overrun.ask": "一个 CQ 的深度是 4。六个带 SIGNALED 的请求完成了，程序还没有轮询。会发生什么？",
  "exam-overrun.answer.1": "设备先扣住两个完成项，等程序轮询。",
  "exam-overrun.answer.2": "CQ 溢出：有完成项丢失，对应的队列对进入 ERR。",
  "exam-overrun.answer.3": "最早的两个完成项被新的取代。",
  "exam-overrun.wrong.1": "设备不会等程序。没有条目的完成项无处可放。",
  "exam-overrun.wrong.3": "程序必须按顺序得知每个完成项。悄悄取代会让缓冲区收不回来，还会掩盖错误。",
  "exam-overrun.why": "设备报告事件 IBV_EVENT_CQ_ERR，放不下的完成项就丢了。所以，使用这个 CQ 的所有队列对上可能同时未完成的请求，CQ 的深度要全部容得下。",

  // 18
  "exam-full.title": "满的发送队列",
  "exam-full.ask": "客户端的发送队列能放 8 个请求。不断投递，直到投递被拒绝，然后再成功投递一次。",
  "exam-full.goal.full": "客户端的一次投递以 ENOMEM 被拒绝。",
  "exam-full.goal.again": "此后客户端的一次投递成功。",
  "exam-full.why": "轮询到一个请求的完成项，就释放它和它前面的位置：所以要推进时钟，再轮询。多数网卡也是这样。程序应当自己计数，而不是投递到 ENOMEM 为止。",

  // 19
  "exam-retries.title": "RETRY_EXC_ERR 说明什么",
  "exam-retries.ask": "一个请求以 RETRY_EXC_ERR 完成。哪种错误与此相符？",
  "exam-retries.answer.1": "客户端的 DEST_QPN 不是服务端的队列对。",
  "exam-retries.answer.2": "服务端没有投递接收请求。",
  "exam-retries.answer.3": "rkey 错误。",
  "exam-retries.wrong.2": "那样的话，服务端的设备返回 RNR NAK，请求如果结束，状态码会是 RNR_RETRY_EXC_ERR。",
  "exam-retries.wrong.3": "rkey 错误时，服务端的设备返回 NAK，请求以 REM_ACCESS_ERR 结束。",
  "exam-retries.why": "RETRY_EXC_ERR 表示历次重传都没有得到确认：GID 或 QPN 错误，对端还没到 RTR 或已在 ERR，或者网络丢掉了所有报文。",

  // 20
  "exam-flush.title": "收回缓冲区",
  "exam-flush.ask": "服务端的程序想收回三个已投递的接收请求。没有任何请求失败。取得它们的完成项。",
  "exam-flush.goal.flushed": "在服务端用一次调用轮询到三个被 flush 的接收请求。",
  "exam-flush.why": "队列对只有在 ERR 里才会交还接收请求：切换到 ERR，然后轮询。RESET 会清空队列，却不产生完成项。",
} as const;
