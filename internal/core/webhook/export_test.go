package webhook

// Unchecked takes a delivery without looking at its signature: the control of
// the tests that forge one.
var Unchecked = Hook.delivery

// DecodeBody, HexMAC, StandardMACs and FieldsOf parse a stranger's bytes.
var (
	DecodeBody   = decodeBody
	HexMAC       = hexMAC
	StandardMACs = standardMACs
	FieldsOf     = fieldsOf
)
