package files

// Within is what no pattern leaves.
var Within = isWithin
