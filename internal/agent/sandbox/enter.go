package sandbox

// Enter must be the first call in main of every program that runs commands in a sandbox.
// The first process of a sandbox is the program itself, started again with a reserved
// first argument. In that process, Enter does the work and does not return. Otherwise,
// it records that the program can be started that way, and returns at once.
func Enter() {
	reentrant = true
	enter()
}

// reentrant reports that the program called Enter. Without it, starting the program again
// would run main a second time, so the built-in sandbox is not available.
var reentrant bool

// The first arguments that Enter handles.
const (
	argFirst   = "lilac:sandbox" // be the first process of a sandbox
	argForward = "lilac:forward" // run a command and carry its connections outside
)

// The addresses under which a command reaches the proxy outside.
const (
	proxySocket = "/run/lilac/egress.sock"
	proxyAddr   = "127.0.0.1:3128"
	proxyURL    = "http://" + proxyAddr
)

// helperProgram is the path of this program in a sandbox.
const helperProgram = "/run/lilac/lilac"
