package agent

// stepSeparator separates the texts of two steps of a request.
const stepSeparator = "\n\n"

// JoinText appends the text of a step to the text of a request. The run builds its text
// and offsets with it, so callers that rebuild the text from journaled steps get the same
// bytes.
func JoinText(prev, stepText string) string {
	if prev == "" || stepText == "" {
		return prev + stepText
	}
	return prev + stepSeparator + stepText
}
