package llm

// maxCut bounds the answers that were cut and are remembered.
const maxCut = 256

// endings decides whether an answer is complete that ended with the marker of its end and without
// a reason. Some hosts never send a reason. Gateways (one-api and its descendants) send the marker
// also if the upstream broke off, so such an answer of a host that sends reasons was cut. The same
// call is refused only once: of a host that leaves the reason out now and then, it costs another
// call and no answer.
type endings struct {
	reasoned bool // the host has sent a reason
	cut      map[string]bool
}

// EndsWithReason records that the answer to the call with this hash had a reason for its end.
func (l *Learned) EndsWithReason(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endings.reasoned = true
	delete(l.endings.cut, call)
}

// EndsWithout reports whether the answer to a call is complete although it had no reason for its
// end. broken means that one of its tool calls is not.
func (l *Learned) EndsWithout(call string, broken bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.endings
	if e.cut[call] || !e.reasoned && !broken {
		delete(e.cut, call)
		return true
	}
	if e.cut == nil || len(e.cut) >= maxCut {
		e.cut = map[string]bool{}
	}
	e.cut[call] = true
	return false
}
