// This file is what can be wrong with a packet.

package packet

// ParseError says why a datagram is no packet. The values are small and
// consecutive, so counters by reason are an array of NumParseErrors; and they
// are constants, so errors.Is finds each of them.
type ParseError uint8

// Why a datagram is no packet.
const (
	ErrTruncated ParseError = iota // shorter than its headers and ICRC
	ErrTVer                        // transport header version other than 0
	ErrOpcode                      // opcode not in use
	ErrPad                         // payload and pad that are no multiple of 4
	ErrPayload                     // payload of a length its opcode cannot have
)

// NumParseErrors is how many ParseErrors there are.
const NumParseErrors = int(ErrPayload) + 1

var parseErrorTexts = [NumParseErrors]string{
	"packet shorter than its headers",
	"transport header version is not 0",
	"opcode not in use",
	"pad count does not fit the payload",
	"payload of a length the opcode cannot have",
}

func (e ParseError) Error() string {
	if int(e) < NumParseErrors {
		return "softroce/packet: " + parseErrorTexts[e]
	}
	return "softroce/packet: unknown parse error"
}
