package db

import (
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// The object ids of the types that statements use.
const (
	oidBool    = 16
	oidBytea   = 17
	oidInt8    = 20
	oidInt2    = 21
	oidInt4    = 23
	oidFloat8  = 701
	oidNumeric = 1700
	oidJSONB   = 3802
)

// parameter is an argument in the wire format. Numbers are text, which the server
// accepts for every numeric type.
type parameter struct {
	value  []byte
	format int16 // 1 is binary
	oid    uint32
}

// encodeParameter encodes an argument as database/sql would pass it to SQLite: a bool is
// 0 or 1, and named types are their kinds.
func encodeParameter(arg any) (parameter, error) {
	switch v := arg.(type) {
	case nil:
		return parameter{}, nil
	case string:
		return parameter{value: []byte(CleanText(v))}, nil
	case int64:
		return integerParameter(v), nil
	case int:
		return integerParameter(int64(v)), nil
	case []byte:
		return parameter{value: v, format: 1}, nil
	case driver.Valuer:
		inner, err := v.Value()
		if err != nil {
			return parameter{}, err
		}
		return encodeParameter(inner)
	}
	switch v := reflect.ValueOf(arg); v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return integerParameter(1), nil
		}
		return integerParameter(0), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return integerParameter(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() > math.MaxInt64 {
			return parameter{}, fmt.Errorf("the argument %d is too large", v.Uint())
		}
		return integerParameter(int64(v.Uint())), nil
	case reflect.Float32, reflect.Float64:
		return parameter{value: strconv.AppendFloat(nil, v.Float(), 'g', -1, 64), oid: oidFloat8}, nil
	case reflect.String:
		return parameter{value: []byte(CleanText(v.String()))}, nil
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return parameter{value: v.Bytes(), format: 1}, nil
		}
	case reflect.Pointer:
		if v.IsNil() {
			return parameter{}, nil
		}
		return encodeParameter(v.Elem().Interface())
	}
	return parameter{}, fmt.Errorf("an argument has the type %T", arg)
}

func integerParameter(n int64) parameter {
	return parameter{value: strconv.AppendInt(make([]byte, 0, 20), n, 10), oid: oidInt8}
}

// decodeValue decodes a value in the binary format into nil, int64, float64, string or
// []byte, the types that SQLite returns. It copies the bytes.
func decodeValue(oid uint32, raw []byte) (any, error) {
	if raw == nil {
		return nil, nil
	}
	wrong := func() (any, error) { return nil, fmt.Errorf("a value of the type %d has %d bytes", oid, len(raw)) }
	switch oid {
	case oidInt8:
		if len(raw) != 8 {
			return wrong()
		}
		return int64(binary.BigEndian.Uint64(raw)), nil
	case oidInt4:
		if len(raw) != 4 {
			return wrong()
		}
		return int64(int32(binary.BigEndian.Uint32(raw))), nil
	case oidInt2:
		if len(raw) != 2 {
			return wrong()
		}
		return int64(int16(binary.BigEndian.Uint16(raw))), nil
	case oidBool:
		if len(raw) != 1 {
			return wrong()
		}
		return int64(raw[0]), nil
	case oidFloat8:
		if len(raw) != 8 {
			return wrong()
		}
		return math.Float64frombits(binary.BigEndian.Uint64(raw)), nil
	case oidNumeric:
		return decodeNumeric(raw)
	case oidBytea:
		return append([]byte{}, raw...), nil
	case oidJSONB:
		if len(raw) == 0 {
			return wrong()
		}
		return string(raw[1:]), nil // after the version of the format
	}
	return string(raw), nil
}

// decodeNumeric decodes the type numeric, which is the type of a sum of integers: a
// number of digits to the base 10,000, the weight of the first one, sign and scale.
func decodeNumeric(raw []byte) (any, error) {
	const negative, special = 0x4000, 0xC000
	if len(raw) < 8 || len(raw) != 8+2*int(binary.BigEndian.Uint16(raw)) {
		return nil, fmt.Errorf("a numeric value has %d bytes", len(raw))
	}
	weight, sign := int(int16(binary.BigEndian.Uint16(raw[2:]))), binary.BigEndian.Uint16(raw[4:])
	if sign&special == special {
		return nil, fmt.Errorf("a numeric value is not a number")
	}
	whole, float, exact := int64(0), 0.0, binary.BigEndian.Uint16(raw[6:]) == 0
	digits := raw[8:]
	for i := 0; i <= max(weight, len(digits)/2-1); i++ {
		digit := int64(0)
		if 2*i < len(digits) {
			digit = int64(binary.BigEndian.Uint16(digits[2*i:]))
		}
		float += float64(digit) * math.Pow(10_000, float64(weight-i))
		if i <= weight {
			exact = exact && whole <= (math.MaxInt64-digit)/10_000
			whole = whole*10_000 + digit
		}
	}
	if sign == negative {
		whole, float = -whole, -float
	}
	if exact {
		return whole, nil
	}
	return float, nil
}

// assign stores a decoded value in a destination of Scan.
func assign(dest, src any) error {
	switch d := dest.(type) {
	case *any:
		*d = src
		return nil
	case *string:
		if s, ok := src.(string); ok {
			*d = s
			return nil
		}
	case *int64:
		if n, ok := src.(int64); ok {
			*d = n
			return nil
		}
	case *[]byte:
		if b, ok := src.([]byte); ok {
			*d = b
			return nil
		}
	case sql.Scanner:
		return d.Scan(src)
	}
	v := reflect.ValueOf(dest)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("the destination %T is not a pointer", dest)
	}
	return assignReflect(v.Elem(), src)
}

func assignReflect(v reflect.Value, src any) error {
	if v.Kind() == reflect.Pointer && src != nil {
		v.Set(reflect.New(v.Type().Elem()))
		return assignReflect(v.Elem(), src)
	}
	mismatch := fmt.Errorf("cannot store %T in %s", src, v.Type())
	isBytes := v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8
	switch src := src.(type) {
	case nil:
		if !isBytes && v.Kind() != reflect.Pointer {
			return mismatch
		}
		v.SetZero()
		return nil
	case []byte:
		if isBytes {
			v.SetBytes(src)
			return nil
		}
		return assignText(v, string(src), mismatch)
	case string:
		if isBytes {
			v.SetBytes([]byte(src))
			return nil
		}
		return assignText(v, src, mismatch)
	case int64:
		return assignInteger(v, src, mismatch)
	case float64:
		if v.Kind() == reflect.Float64 || v.Kind() == reflect.Float32 {
			v.SetFloat(src)
			return nil
		}
	}
	return mismatch
}

func assignInteger(v reflect.Value, n int64, mismatch error) error {
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if v.OverflowInt(n) {
			return fmt.Errorf("%d is too large for %s", n, v.Type())
		}
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n < 0 || v.OverflowUint(uint64(n)) {
			return fmt.Errorf("%d is out of range for %s", n, v.Type())
		}
		v.SetUint(uint64(n))
	case reflect.Bool:
		if n != 0 && n != 1 {
			return mismatch
		}
		v.SetBool(n == 1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.String:
		v.SetString(strconv.FormatInt(n, 10))
	default:
		return mismatch
	}
	return nil
}

func assignText(v reflect.Value, s string, mismatch error) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64:
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return assignInteger(v, n, mismatch)
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && (v.Kind() == reflect.Float32 || v.Kind() == reflect.Float64) {
			v.SetFloat(f)
			return nil
		}
	}
	return mismatch
}
