// Where a capture was made, and how that was found, in Chinese. The keys are the English texts of
// cmd/internal/view/report; web/test/report.test.mjs compares them.
export const captures: Record<string, string> = {
  "client": "客户端",
  "server": "服务端",
  "as you said": "命令行给定",
  "the device itself": "设备自身",
  "the record has the name of the file": "记录里有这个文件名",
  "packets of the {1} pass it after {2}, and packets of the {3} before": "{1}的报文经过它比经过 {2} 晚，{3}的报文则早",
  "packets pass it no later than {1}": "报文经过它不晚于 {1}",
  "packets of the client pass it after {1}": "客户端的报文经过它比经过 {1} 晚",
  "packets of the client pass it before {1}": "客户端的报文经过它比经过 {1} 早",
  "its clock is the server's": "它的时钟是服务端的",
  "assumed; write server=FILE if the server's host has captured it": "假定如此；如果是服务端的主机捕获的，请写 server=FILE",
  "its clock is {1} ahead of the client's, or else packets would be sent before they were posted, or after they completed": "它的时钟比客户端的快 {1}，否则报文会在投递之前或完成之后发送",
  "its clock is {1} behind that of the client's, or else packets would be sent before they were posted, or after they completed": "它的时钟比客户端的慢 {1}，否则报文会在投递之前或完成之后发送",
  "moved by {1}, or else packets would arrive before they were sent": "移动了 {1}，否则报文会在发送之前到达",
};
