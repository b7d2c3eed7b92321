package webhook

// Unchecked takes a delivery without looking at its signature: the control of
// the tests that forge one.
var Unchecked = Hook.delivery

// DecodeBody, GitHubMAC and StandardMACs are what reads a stranger's bytes.
var (
	DecodeBody   = decodeBody
	GitHubMAC    = githubMAC
	StandardMACs = standardMACs
)
