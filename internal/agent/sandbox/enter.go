package sandbox

// Enter must be the first thing that main does in every program that runs
// commands in a sandbox: the program itself, started again with a first
// argument that nobody else uses, is the first process of a sandbox. Then Enter
// does that work and does not return. Otherwise it notes that the program can
// be started that way, and returns at once.
func Enter() {
	reentrant = true
	enter()
}

// reentrant says that the program called Enter. Without it a second start would
// be a second program, so there are no namespaces of our own.
var reentrant bool

// The first arguments that Enter takes for its own.
const (
	argFirst   = "lilac:sandbox" // be the first process of a sandbox
	argForward = "lilac:forward" // run a command and carry its connections outside
)

// Where a command finds the way to the proxy outside.
const (
	proxySocket = "/run/lilac/egress.sock"
	proxyAddr   = "127.0.0.1:3128"
	proxyURL    = "http://" + proxyAddr
)

// helperProgram is this program as it is shown in a sandbox.
const helperProgram = "/run/lilac/lilac"
