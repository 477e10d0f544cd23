// The grammar and the compiler: one pass over the text, straight to the tape, so that nothing recurses but brackets.
#include "expression.h"

#include "renamed.h"

#include <linchpin/detail/edits.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

namespace linchpin::scene {

namespace {

constexpr std::size_t longest_text = 20000, longest_tape = 20000;
constexpr int deepest = 60;          // brackets of one text, and definitions in each other's texts
constexpr int deepest_in_all = 300;  // both together: the compiler recurses for each
constexpr std::size_t most_bodies_of_constraint = 64;

struct Function {
  std::string_view name;
  Code code;
  std::array<std::optional<Type>, 2> takes;
  Type gives;
};
constexpr auto S = Type::scalar, V = Type::vector;
constexpr std::array functions = {
    Function{"sin", Code::sin, {S}, S},        Function{"cos", Code::cos, {S}, S},
    Function{"tan", Code::tan, {S}, S},        Function{"asin", Code::asin, {S}, S},
    Function{"acos", Code::acos, {S}, S},      Function{"atan", Code::atan, {S}, S},
    Function{"sinh", Code::sinh, {S}, S},      Function{"cosh", Code::cosh, {S}, S},
    Function{"tanh", Code::tanh, {S}, S},      Function{"asinh", Code::asinh, {S}, S},
    Function{"exp", Code::exp, {S}, S},        Function{"log", Code::log, {S}, S},
    Function{"sqrt", Code::sqrt, {S}, S},      Function{"abs", Code::abs, {S}, S},
    Function{"sign", Code::sign, {S}, S},      Function{"min", Code::min, {S, S}, S},
    Function{"max", Code::max, {S, S}, S},     Function{"square", Code::square, {S}, S},
    Function{"atan2", Code::atan2, {S, S}, S}, Function{"hypot", Code::hypot, {S, S}, S},
    Function{"pow", Code::power, {S, S}, S},   Function{"dot", Code::dot, {V, V}, S},
    Function{"cross", Code::cross, {V, V}, V}, Function{"norm", Code::norm, {V}, S},
    Function{"norm2", Code::norm2, {V}, S},    Function{"dist", Code::dist, {V, V}, S},
    Function{"dist2", Code::dist2, {V, V}, S},
};

const Function* find_function(std::string_view name) {
  for (const Function& f : functions)
    if (f.name == name) return &f;
  return nullptr;
}

const char* to_string(Type type) { return type == Type::scalar ? "a scalar" : "a vector"; }

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// What is copied from a paper, and how it is typed here.
std::string sign_hint(std::string_view word) {
  static constexpr std::pair<const char*, const char*> signs[] = {
      {"π", "pi"}, {"²", "^2"}, {"³", "^3"}, {"·", "*"}, {"×", "* or cross(u, v)"}, {"−", "-"}, {"√", "sqrt(…)"}};
  for (const auto& [sign, typed] : signs)
    if (word.find(sign) != word.npos) return "; for " + std::string(sign) + " write " + typed;
  return {};
}

// Other engines shorten what is asked of a body: pos, vel, ang_vel; and so do the columns of --csv: vx, wz.
std::string quantity_hint(std::string_view word, const std::vector<std::string>& known) {
  if (const std::string hint = sign_hint(word); !hint.empty()) return hint;
  if ((word.size() == 1 || (word.size() == 2 && word[1] >= 'x' && word[1] <= 'z')) &&
      (word[0] == 'v' || word[0] == 'w'))
    return "; did you mean \"" + std::string(word[0] == 'v' ? "velocity" : "omega") +
           (word.size() == 2 ? "." + std::string(word.substr(1)) : "") + "\"?";
  for (const std::string& name : known)
    if (word.size() > 1 && name.starts_with(word)) return "; did you mean \"" + name + "\"?";
  const std::string near = suggestion(word, known);
  if (!near.empty()) return near;
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  return "; known: " + all;
}

}  // namespace

std::vector<std::string_view> identifiers_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t from = at;
    while (at < text.size() && (is_letter(text[at]) || (at > from && is_digit(text[at])))) ++at;
    if (at > from) out.push_back(text.substr(from, at - from));
    if (at == from) ++at;
  }
  return out;
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  return detail::nearest(word, known);
}

std::string quoted(const std::string& name) {
  const bool plain = !name.empty() && !is_digit(name[0]) &&
                     std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
  return plain ? name : "'" + name + "'";
}

std::string shortened(const std::string& message) {
  constexpr std::size_t most = 600, part = 280;
  if (message.size() <= most) return message;
  const auto inside = [&](std::size_t i) { return (static_cast<unsigned char>(message[i]) & 0xC0) == 0x80; };
  std::size_t head = part, tail = message.size() - part;
  while (head > 0 && inside(head)) --head;
  while (tail < message.size() && inside(tail)) ++tail;
  return message.substr(0, head) + " … " + message.substr(tail);
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? std::string() : "; did you mean \"" + near + "\"?";
}

std::string suggestion_or_all(std::string_view word, const std::vector<std::string>& known) {
  if (const std::string near = suggestion(word, known); !near.empty() || known.empty()) return near;
  constexpr std::size_t most = 6;
  std::string all = "; known: ";
  for (std::size_t i = 0; i < std::min(known.size(), most); ++i) all += (i > 0 ? ", " : "") + known[i];
  return known.size() > most ? all + " and " + std::to_string(known.size() - most) + " more" : all;
}

const Constant* Constants::find(std::string_view name) const {
  if (const auto found = own_.find(name); found != own_.end()) return &found->second;
  if (!outer_) return nullptr;
  const auto found = outer_->find(name);
  return found == outer_->end() ? nullptr : &found->second;
}

Constant& Constants::operator[](std::string_view name) {
  const auto found = own_.find(name);
  return found != own_.end() ? found->second : own_[std::string(name)];
}

Constants Constants::inside() const {
  Constants out;
  out.outer_ = outer_ ? outer_ : &own_;
  if (outer_) out.own_ = own_;
  return out;
}

int Tape::rows() const {
  int n = 0;
  for (const Result& r : results) n += r.type == Type::scalar ? 1 : 3;
  return n;
}

bool is_function(std::string_view name) { return find_function(name) || is_result(name); }

struct Operand {
  Type type = Type::scalar;
  int at = 0;
  bool constant = true;
  std::uint64_t bodies = 0;
  std::size_t place = 0;
};

namespace {

// The place in a body to which quantities refer: its centre of mass, with the axes of the body, or a frame.
struct Origin {
  const NamedFrame* frame = nullptr;
  /// A point of the frame as one of the body, both from the origins.
  Vector3d point(const Vector3d& p) const { return frame ? Vector3d(frame->p_BF + frame->R_BF * p) : p; }
  Vector3d axis(const Vector3d& u) const { return frame ? Vector3d(frame->R_BF * u) : u; }
};

}  // namespace

struct Compiler::Impl {
  const Names& names;
  const Constants* constants;
  const Definition* definitions;  // those that the text may use
  Tape tape;
  std::string_view text;
  std::size_t at = 0;
  int depth = 0, definitions_deep = 0, deep_in_all = 0;
  std::optional<std::size_t> used_at;  // in a definition: where the outermost text uses it
  std::vector<std::pair<const Definition*, Operand>> expanded;

  Impl(const Names& n, const Constants& c) : names(n), constants(&c), definitions(n.definitions.get()) {}

  // ---- the tape ----

  double& scalar(const Operand& x) { return tape.scalars[static_cast<std::size_t>(x.at)]; }
  Vector3d& vector(const Operand& x) { return tape.vectors[static_cast<std::size_t>(x.at)]; }

  Operand fresh(Type type, std::size_t place) {
    Operand x;
    x.type = type;
    x.place = place;
    if (type == Type::scalar) {
      x.at = static_cast<int>(tape.scalars.size());
      tape.scalars.push_back(0);
    } else {
      x.at = static_cast<int>(tape.vectors.size());
      tape.vectors.push_back(Vector3d::Zero());
    }
    if (tape.scalars.size() + tape.vectors.size() > longest_tape) throw Fault(place, "the expression is too long");
    return x;
  }
  Operand number(double value, std::size_t place) {
    Operand x = fresh(Type::scalar, place);
    scalar(x) = value;
    return x;
  }
  Operand literal(const Constant& value, std::size_t place) {
    if (const double* s = std::get_if<double>(&value)) return number(*s, place);
    Operand x = fresh(Type::vector, place);
    vector(x) = std::get<Vector3d>(value);
    return x;
  }

  // Constants are computed here and now, by the code that computes everything else.
  void fold(const Operation& op, const Operand& out) {
    Tape one;
    one.scalars.assign(4, 0.0);
    one.vectors.assign(4, Vector3d::Zero());
    Operation local = op;
    local.out = 3;
    int next_operand = 0;
    for (int* from : {&local.a, &local.b, &local.c}) {
      const auto at_operand = static_cast<std::size_t>(*from), to = static_cast<std::size_t>(next_operand);
      if (at_operand < tape.scalars.size()) one.scalars[to] = tape.scalars[at_operand];
      if (at_operand < tape.vectors.size()) one.vectors[to] = tape.vectors[at_operand];
      *from = next_operand++;
    }
    one.operations = {local};
    Memory<Dual<0>> m = one.memory<Dual<0>>();
    one.run<Dual<0>>(m, {}, Dual<0>(0.0), Tape::everything);
    if (out.type == Type::scalar)
      scalar(out) = m.scalars[3].value;
    else
      vector(out) = {m.vectors[3].x.value, m.vectors[3].y.value, m.vectors[3].z.value};
  }

  Operand emit(Operation op, Type type, std::initializer_list<Operand> from, std::size_t place) {
    bool constant = from.size() > 0;
    for (const Operand& x : from) {
      op.bodies |= x.bodies;
      constant = constant && x.constant;
    }
    op.place = used_at.value_or(place);
    if (!constant && tape.operations.size() < 200) {  // the same again: a compiler would not compute it twice either
      for (const Operation& old : tape.operations)
        if (old.code == op.code && old.a == op.a && old.b == op.b && old.c == op.c && old.n == op.n &&
            old.number == op.number && old.at == op.at) {
          Operand same;
          same.type = type, same.at = old.out, same.constant = false, same.bodies = old.bodies, same.place = place;
          return same;
        }
    }
    Operand out = fresh(type, place);
    out.bodies = op.bodies;
    op.out = out.at;
    if (constant) {
      fold(op, out);
      return out;
    }
    out.constant = false;
    tape.operations.push_back(op);
    return out;
  }
  Operand unary(Code code, Type type, const Operand& a, std::size_t place) {
    Operation op{code};
    op.a = a.at;
    return emit(op, type, {a}, place);
  }
  Operand binary(Code code, Type type, const Operand& a, const Operand& b, std::size_t place) {
    Operation op{code};
    op.a = a.at, op.b = b.at;
    return emit(op, type, {a, b}, place);
  }
  Operand with_number(Code code, const Operand& a, double number, std::size_t place) {
    Operation op{code};
    op.a = a.at, op.number = number;
    return emit(op, Type::scalar, {a}, place);
  }

  // ---- what may be combined ----

  void want(const Operand& x, Type type, std::string_view who) {
    if (x.type != type)
      throw Fault(x.place, std::string(who) + " takes " + to_string(type) + ", this is " + to_string(x.type));
  }
  Operand sum(const Operand& a, const Operand& b, bool minus, std::size_t place) {
    if (a.type != b.type)
      throw Fault(place, std::string(minus ? "'-'" : "'+'") + " joins " + to_string(a.type) + " and " +
                             to_string(b.type) + "; both must be of one kind");
    if (a.type == Type::vector)
      return binary(minus ? Code::subtract_vector : Code::add_vector, Type::vector, a, b, place);
    if (!a.constant && b.constant) return with_number(Code::add_constant, a, minus ? -scalar(b) : scalar(b), place);
    return binary(minus ? Code::subtract : Code::add, Type::scalar, a, b, place);
  }
  Operand times(const Operand& a, const Operand& b, std::size_t place) {
    if (a.type == Type::vector && b.type == Type::vector)
      throw Fault(place, "a vector times a vector: write dot(u, v) or cross(u, v)");
    if (a.type == Type::vector) return binary(Code::scale, Type::vector, b, a, place);
    if (b.type == Type::vector) return binary(Code::scale, Type::vector, a, b, place);
    if (!a.constant && b.constant) return with_number(Code::multiply_constant, a, scalar(b), place);
    if (!b.constant && a.constant) return with_number(Code::multiply_constant, b, scalar(a), place);
    return binary(Code::multiply, Type::scalar, a, b, place);
  }
  Operand quotient(const Operand& a, const Operand& b, std::size_t place) {
    if (b.type == Type::vector) throw Fault(place, "nothing can be divided by a vector");
    if (b.constant && scalar(b) == 0) throw Fault(b.place, "division by zero");
    if (a.type == Type::vector) return binary(Code::shrink, Type::vector, a, b, place);
    return binary(Code::divide, Type::scalar, a, b, place);
  }
  Operand raised(const Operand& a, const Operand& b, std::size_t place) {
    if (a.type == Type::vector) throw Fault(place, "a vector has no power; norm2(v) is its length squared");
    if (b.type == Type::vector) throw Fault(b.place, "an exponent is a scalar, this is a vector");
    if (!b.constant) {
      if (a.constant && !(scalar(a) > 0)) throw Fault(a.place, "a power with a changing exponent needs a base above 0");
      return unary(Code::exp, Type::scalar, times(b, unary(Code::log, Type::scalar, a, place), place), place);
    }
    const double e = scalar(b);
    if (e == 2) return unary(Code::square, Type::scalar, a, place);
    if (e == std::floor(e) && std::abs(e) <= 64) {
      Operation op{Code::power};
      op.a = a.at, op.n = static_cast<int>(e);
      return emit(op, Type::scalar, {a}, place);
    }
    if (!std::isfinite(e)) throw Fault(b.place, "this exponent is not finite");
    return with_number(Code::power_constant, a, e, place);
  }

  // ---- the text ----

  void skip() {
    while (at < text.size() && is_space(text[at])) ++at;
  }
  bool next(char c) {
    skip();
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }
  std::string shown() const {
    if (at >= text.size()) return "the end";
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (c < 0x20 || c == 0x7f) return "a control character";
    std::size_t n = 1;
    while (at + n < text.size() && (static_cast<unsigned char>(text[at + n]) & 0xC0) == 0x80) ++n;
    return "'" + std::string(text.substr(at, n)) + "'";
  }
  void need(char c, std::string_view where) {
    if (!next(c)) throw Fault(at, std::string("expected '") + c + "' " + std::string(where) + ", found " + shown());
  }
  std::string_view identifier() {
    const std::size_t from = at;
    while (at < text.size() && (is_letter(text[at]) || is_digit(text[at]))) ++at;
    return text.substr(from, at - from);
  }
  std::string quoted() {
    const std::size_t from = at++;
    const std::size_t end = text.find('\'', at);
    if (end == std::string_view::npos) throw Fault(from, "this quote is not closed");
    std::string name(text.substr(at, end - at));
    at = end + 1;
    return name;
  }

  struct Deeper {
    explicit Deeper(Impl& i) : impl(i) {
      if (++impl.depth > deepest)
        throw Fault(impl.at, "more than " + std::to_string(deepest) + " brackets or signs within one another");
      if (++impl.deep_in_all > deepest_in_all)
        throw Fault(impl.at, "more than " + std::to_string(deepest_in_all) +
                                 " brackets, signs and definitions within one another");
    }
    ~Deeper() { --impl.depth, --impl.deep_in_all; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Impl& impl;
  };

  Operand parse_sum() {
    const Deeper guard(*this);
    Operand a = parse_product();
    for (;;) {
      skip();
      const std::size_t place = at;
      if (next('+'))
        a = sum(a, parse_product(), false, place);
      else if (next('-'))
        a = sum(a, parse_product(), true, place);
      else
        return a;
    }
  }
  Operand parse_product() {
    Operand a = parse_sign();
    for (;;) {
      skip();
      const std::size_t place = at;
      if (next('*')) {
        if (at < text.size() && text[at] == '*') throw Fault(place, "write a power as x^2");
        a = times(a, parse_sign(), place);
      } else if (next('/')) {
        a = quotient(a, parse_sign(), place);
      } else {
        return a;
      }
    }
  }
  Operand parse_sign() {
    skip();
    const std::size_t place = at;
    bool minus = false;
    while (at < text.size() && (text[at] == '+' || text[at] == '-')) {
      minus = minus != (text[at] == '-');
      ++at;
      skip();
    }
    const Operand x = parse_power();
    if (at < text.size() && text[at] == '\'')
      throw Fault(at, "a ' makes the rate of a coordinate; of a body write .velocity, its parts .x, .y and .z");
    if (!minus) return x;
    return unary(x.type == Type::vector ? Code::negate_vector : Code::negate, x.type, x, place);
  }
  Operand parse_power() {
    const Operand base = parse_postfix();
    skip();
    const std::size_t place = at;
    if (!next('^')) return base;
    const Deeper guard(*this);
    return raised(base, parse_sign(), place);
  }
  Operand parse_postfix() {
    Operand x = parse_primary();
    for (;;) {
      skip();
      const std::size_t place = at;
      if (!next('.')) return x;
      skip();
      const std::string_view part = identifier();
      if (x.type != Type::vector) throw Fault(place, "a scalar has no parts; vectors have .x, .y and .z");
      const Code code =
          part == "x"   ? Code::x
          : part == "y" ? Code::y
          : part == "z"
              ? Code::z
              : throw Fault(place + 1, "a vector has the parts x, y and z, not \"" + std::string(part) + "\"");
      x = unary(code, Type::scalar, x, place);
    }
  }
  [[noreturn]] void no_product() {
    const std::size_t place = at;
    const std::string word(identifier()), sign = sign_hint(word);
    throw Fault(place, "\"" + word + "\" after a value" +
                           (sign.empty() ? ": write a product with *, and no units (all is SI: m, kg, s, rad)" : sign));
  }
  Operand parse_number() {
    const std::size_t place = at;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range)
      throw Fault(place, "this number is larger than double precision can represent");
    if (error != std::errc()) throw Fault(place, "this is not a number");
    at = static_cast<std::size_t>(end - text.data());
    if (at < text.size() && is_letter(text[at])) no_product();
    return number(value, place);
  }
  Operand parse_primary() {
    skip();
    const std::size_t place = at;
    if (at >= text.size()) throw Fault(at, "something is missing at the end");
    const char c = text[at];
    if (is_digit(c) || (c == '.' && at + 1 < text.size() && is_digit(text[at + 1]))) return parse_number();
    if (next('(')) {
      const Operand x = parse_sum();
      need(')', "to close the bracket at column " + std::to_string(place + 1));
      return x;
    }
    if (next('[')) {
      std::array<Operand, 3> e;
      for (std::size_t i = 0; i < 3; ++i) {
        e[i] = parse_sum();
        want(e[i], Type::scalar, "a component of a vector");
        if (i < 2) need(',', "between the three components of a vector");
      }
      need(']', "after the three components of a vector");
      Operation op{Code::make};
      op.a = e[0].at, op.b = e[1].at, op.c = e[2].at;
      return emit(op, Type::vector, {e[0], e[1], e[2]}, place);
    }
    if (c == '\'') {
      const std::string name = quoted();
      if (const int body = find_body(name); body >= 0) return parse_quantity(body, name, place);
      if (const NamedFrame* frame = find_frame(name)) return parse_frame(*frame, place);
      throw Fault(place, "there is no body and no frame '" + name + "'" + suggestion_or_all(name, places()));
    }
    if (!is_letter(c)) {
      if (c == '=') throw Fault(place, "an equation has one '=', between its two sides");
      throw Fault(place, "expected a number, a name or a bracket, found " + shown());
    }
    return parse_name(identifier(), place);
  }

  /// Refuses a name of C++ with its namespace, as in a program.
  void refuse_standard_name(std::string_view name, std::size_t place) {
    if (name != "std" || !text.substr(at).starts_with("::")) return;
    at += 2;
    const std::string function(identifier());
    throw Fault(place, "unknown name \"std::" + function + "\"; did you mean \"" + function + "\"?");
  }

  Operand parse_name(std::string_view name, std::size_t place) {
    skip();
    refuse_standard_name(name, place);
    const bool call = at < text.size() && text[at] == '(';
    if (call) {
      if (const Function* f = find_function(name)) return parse_call(*f, place);
      for (const Input& o : names.observables)
        if (o.name == name) return parse_observable(o, place);
      if (const std::string_view now = renamed_word(name); !now.empty())
        throw Fault(place, "\"" + std::string(name) + "\"" + was_renamed(now));
      if (is_result(name))
        throw Fault(place,
                    std::string(name) + "() is a result of the run. It can be used in [[log]] and [[expect]] only");
      std::vector<std::string> known;
      for (const Function& f : functions) known.emplace_back(f.name);
      for (const Input& o : names.observables) known.push_back(o.name);
      if (const int body = find_body(name); body >= 0 && kind_of(body) == BodyKind::coordinate)
        return parse_coordinate(body, name, place);
      if (find_body(name) >= 0)
        throw Fault(place,
                    "'" + std::string(name) + "' is a body, not a function: " + std::string(name) + ".point(x, y, z)");
      throw Fault(place, "unknown function \"" + std::string(name) + "\"" + suggestion(name, known));
    }
    if (const int body = find_body(name); body >= 0) return parse_quantity(body, name, place);
    if (const NamedFrame* frame = find_frame(name)) return parse_frame(*frame, place);
    const Definition* definition = find_definition(name);
    for (const Input& input : names.inputs)
      if (input.name == name) {
        if (definition)
          throw Fault(place, "\"" + input.name + "\" is a name of the expression language. Rename the definition");
        return emit_input(input, place);
      }
    if (definition) return expand(*definition, place);
    refuse_sensor(name, place);
    if (const Constant* found = constants->find(name)) return literal(*found, place);
    if (name == "t") {
      if (!names.time) throw Fault(place, "the time t cannot be used here, because this value is constant");
      tape.uses_time = true;
      Operand x = emit(Operation{Code::time}, Type::scalar, {}, place);
      return x;
    }
    if (name == "pi") return number(3.14159265358979323846, place);
    if (find_function(name))
      throw Fault(place, "\"" + std::string(name) + "\" is a function: " + std::string(name) + "(…)");
    if (const std::string_view now = renamed_word(name); !now.empty())
      throw Fault(place, "\"" + std::string(name) + "\"" + was_renamed(now));
    std::vector<std::string> known = places();
    for (const Definition* d = definitions; d; d = d->before.get()) known.push_back(d->name);
    for (const Constants::Map* map : {&constants->own(), constants->outer()})
      if (map)
        for (const auto& [key, value] : *map) known.push_back(key);
    for (const Input& input : names.inputs) known.push_back(input.name);
    if (names.time) known.emplace_back("t");
    known.emplace_back("pi");
    const std::string sign = sign_hint(name);
    throw Fault(place, "unknown name '" + std::string(name) + "'" +
                           (sign.empty() ? advice_on_name(place, std::string(name), known) : sign));
  }

  // Forces of sensors are no inputs here.
  void refuse_sensor(std::string_view name, std::size_t place) const {
    for (const std::string& sensor : names.sensors) {
      if (name != sensor + "_force" && name != sensor + "_torque") continue;
      if (!names.constraints_known) throw ReadsForces(place, std::string(name) + " reads a force");
      throw Fault(place, "the sensor \"" + sensor +
                             "\" gives a result of the run. It can be used in [[log]] and [[expect]] only");
    }
  }

  const Definition* find_definition(std::string_view name) const {
    const Definition* d = definitions;
    while (d && d->name != name) d = d->before.get();
    return d;
  }

  // The value of a definition. Its faults are told at the place that uses it.
  Operand expand(const Definition& d, std::size_t place) {
    for (const auto& [known, value] : expanded)
      if (known == &d) {
        Operand again = value;
        again.place = place;
        return again;
      }
    if (++definitions_deep > deepest)
      throw Fault(place, "\"" + d.name + "\" is the last of more than " + std::to_string(deepest) +
                             " definitions, each of which uses the one above; write some of them as one");
    const auto outside = std::tuple(text, at, constants, definitions, used_at, depth);
    text = d.text, at = 0, depth = 0;
    constants = d.constants, definitions = d.before.get();
    if (!used_at) used_at = place;
    Operand x;
    try {
      x = parse_sum();
      end();
    } catch (const ReadsForces&) {
      throw;
    } catch (const Fault& fault) {
      const std::string what = fault.what();
      throw Fault(place,
                  what.starts_with("in the definition ") ? what : "in the definition \"" + d.name + "\": " + what);
    }
    std::tie(text, at, constants, definitions, used_at, depth) = outside;
    --definitions_deep;
    x.place = place;
    expanded.emplace_back(&d, x);
    return x;
  }

  Operand emit_input(const Input& input, std::size_t place) {
    int slot = 0;
    for (const Input& used : tape.inputs) {
      if (used.name == input.name && used.of == input.of && used.on == input.on && used.row == input.row) break;
      ++slot;
    }
    if (slot == static_cast<int>(tape.inputs.size())) tape.inputs.push_back(input);
    Operation op{input.type == Type::scalar ? Code::input : Code::input_vector};
    op.a = slot;
    return emit(op, input.type, {}, place);
  }

  // A name that the identifier at `place` begins, which needs quotes because it is no identifier itself.
  // @return the advice to write them, or nothing
  std::string advice_to_quote(std::size_t place, const std::vector<std::string>& known) const {
    const std::string* found = nullptr;
    for (const std::string& name : known)
      if (scene::quoted(name) != name && text.substr(place).starts_with(name) &&
          (!found || name.size() > found->size()))
        found = &name;
    if (!found) return {};
    return ". The name \"" + *found + "\" has characters besides letters, digits and _, so write " +
           scene::quoted(*found) + " with its quotes";
  }
  std::string advice_on_name(std::size_t place, const std::string& word, const std::vector<std::string>& known) const {
    const std::string advice = advice_to_quote(place, known);
    return advice.empty() ? suggestion_or_all(word, known) : advice;
  }

  std::string a_name() {
    skip();
    return at < text.size() && text[at] == '\'' ? quoted() : std::string(identifier());
  }
  Operand parse_observable(Input input, std::size_t place) {
    need('(', "");
    if (!names.constraints_known) throw ReadsForces(place, input.name + "() reads a force");
    if (input.of == "-") {
      need(')', "to close " + input.name + "()");
      return emit_input(input, place);
    }
    skip();
    const std::size_t inside = at;
    input.of = a_name();
    const bool of_force = input.kind == Input::Of::force;
    const char* const what = of_force ? "force" : "constraint";
    const std::vector<std::string>& known = of_force ? names.forces : names.constraints;
    const auto found = std::find(known.begin(), known.end(), input.of);
    if (found == known.end())
      throw Fault(inside, std::string("there is no ") + what + " \"" + input.of + "\"" +
                              (known.empty() ? std::string(", and the scene has no ") + what + "s"
                                             : advice_on_name(inside, input.of, known)));
    const auto index = static_cast<std::size_t>(found - known.begin());
    const std::vector<int>& all = (of_force ? names.force_bodies : names.constraint_bodies)[index];
    if (input.type == Type::vector && next(',')) {
      skip();
      const std::size_t body_at = at;
      const std::string body = a_name();
      for (std::size_t k = 0; k < all.size(); ++k)
        if (names.bodies[static_cast<std::size_t>(all[k])] == body) input.on = static_cast<int>(k);
      if (input.on < 0) {
        std::vector<std::string> own;
        for (const int each : all) own.push_back(names.bodies[static_cast<std::size_t>(each)]);
        const NamedFrame* const frame = find_frame(body);
        const std::string quote = advice_to_quote(body_at, places());
        const std::string of_frame =
            frame ? ". It is a frame of the body \"" + names.bodies[static_cast<std::size_t>(frame->body)] + "\"" : "";
        throw Fault(body_at, "\"" + body + "\" is not a body of the " + what + " \"" + input.of + "\"" + of_frame +
                                 (frame           ? std::string()
                                  : quote.empty() ? suggestion_or_all(body, own)
                                                  : quote));
      }
    }
    if (!of_force) refuse_impossible_quantity(input, index, inside);
    if (input.name == "lambda" && next(',')) input.row = parse_row(input.of, index);
    need(')', "to close " + input.name + "()");
    const bool of_coordinate = input.type == Type::vector &&
                               kind_of(all[static_cast<std::size_t>(std::max(input.on, 0))]) == BodyKind::coordinate;
    if (!of_coordinate) return emit_input(input, place);
    if (input.name == "moment" || input.name == "applied_moment")
      throw Fault(place, "a coordinate has a generalized force and no moment. Use " +
                             std::string(of_force ? "applied_force" : "reaction") + "(…)");
    return unary(Code::x, Type::scalar, emit_input(input, place), place);
  }

  // A constraint has no coordinate or no change of mode of some kinds, and then no such quantity.
  void refuse_impossible_quantity(const Input& input, std::size_t index, std::size_t place) {
    if (const auto found = names.compound_of.find(input.of);
        found != names.compound_of.end() && !input.name.starts_with("joint_"))
      throw Fault(place,
                  "\"" + input.of + "\" is a joint inside a compound joint, so it has a coordinate and no " +
                      input.name + "() of its own. " +
                      (found->second.empty() ? "The compound joint leaves all motions free, so nothing holds the body"
                                             : "Use the compound joint \"" + found->second + "\""));
    if (input.name.starts_with("joint_") && index < names.constraint_coordinates.size() &&
        !names.constraint_coordinates[index])
      throw Fault(place, "\"" + input.of + "\" is neither a hinge nor a slider: there is no " + input.name + "()");
    if (index >= names.constraint_modes.size()) return;
    const Names::Modes& modes = names.constraint_modes[index];
    const std::string who = "\"" + input.of + "\" ";
    const bool of_friction = input.name == "sticks" || input.name == "stick_time" || input.name == "slip_time";
    if (of_friction && !modes.friction)
      throw Fault(place, who + "has no law of friction that sticks, such as coulomb without a speed: there is no " +
                             input.name + "()");
    const bool of_release = input.name == "release_time" || input.name == "engage_time";
    if (of_release && !modes.unilateral)
      throw Fault(place, who + "is not unilateral: there is no " + input.name + "()");
    if (input.name == "engage_time" && !modes.reengage)
      throw Fault(place, who + "stays released, so there is no engage_time(): unilateral = { reengage = true }");
  }

  // The number of a row of a constraint, from 1 as written. @return from 0
  int parse_row(const std::string& constraint, std::size_t index) {
    skip();
    const std::size_t place = at;
    const Operand x = parse_sum();
    const int rows = index < names.constraint_rows.size() ? names.constraint_rows[index] : 1;
    const std::string range = rows == 1 ? "1" : "1 to " + std::to_string(rows);
    if (!x.constant || x.type != Type::scalar || scalar(x) != std::floor(scalar(x)) ||
        !(scalar(x) >= 1 && scalar(x) <= rows))
      throw Fault(place, "the second argument of lambda() is the number of a row of \"" + constraint + "\": " + range);
    return static_cast<int>(scalar(x)) - 1;
  }

  // The acceleration of a body or a coordinate, which is a result of the equations.
  Operand parse_acceleration(const char* name, int body, std::size_t place) {
    if (!names.constraints_known) throw ReadsForces(place, "an acceleration is a result of the equations");
    if (!names.accelerations)
      throw Fault(place, "an acceleration is a result of the equations. It can be used in [[log]] and [[expect]] only");
    Input input{name, Type::vector, names.bodies[static_cast<std::size_t>(body)], body};
    input.kind = Input::Of::body;
    return emit_input(input, place);
  }

  Operand parse_call(const Function& f, std::size_t place) {
    need('(', "");
    std::array<Operand, 2> x;
    const std::size_t count = f.takes[1] ? 2 : 1;
    const std::string name = std::string(f.name) + "()";
    for (std::size_t i = 0; i < count; ++i) {
      x[i] = parse_sum();
      want(x[i], *f.takes[i], name);
      if (i + 1 < count) need(',', "between the two arguments of " + name);
    }
    skip();
    if (at < text.size() && text[at] == ',')
      throw Fault(at, name + " takes " + (count == 1 ? "one argument" : "two arguments"));
    need(')', "to close " + name);
    if (f.code == Code::power) return raised(x[0], x[1], place);
    return count == 1 ? unary(f.code, f.gives, x[0], place) : binary(f.code, f.gives, x[0], x[1], place);
  }

  int find_body(std::string_view name) const {
    const auto found = std::find(names.bodies.begin(), names.bodies.end(), name);
    return found == names.bodies.end() ? -1 : static_cast<int>(found - names.bodies.begin());
  }

  const NamedFrame* find_frame(std::string_view name) const {
    const auto found = std::find_if(names.frames.begin(), names.frames.end(),
                                    [&](const NamedFrame& frame) { return frame.name == name; });
    return found == names.frames.end() ? nullptr : &*found;
  }
  /// The names of all bodies and of the frames that have other names.
  std::vector<std::string> places() const {
    std::vector<std::string> all = names.bodies;
    for (const NamedFrame& frame : names.frames)
      if (find_body(frame.name) < 0) all.push_back(frame.name);
    return all;
  }

  BodyKind kind_of(int body) const {
    const auto k = static_cast<std::size_t>(body);
    return k < names.kinds.size() ? names.kinds[k] : BodyKind::rigid;
  }

  // The body's place among those of this tape.
  int use(int body, std::size_t place) {
    const auto found = std::find(tape.bodies.begin(), tape.bodies.end(), body);
    if (found != tape.bodies.end()) return static_cast<int>(found - tape.bodies.begin());
    if (tape.bodies.size() == most_bodies_of_constraint)
      throw Fault(place, "one constraint can contain at most " + std::to_string(most_bodies_of_constraint) + " bodies");
    tape.bodies.push_back(body);
    return static_cast<int>(tape.bodies.size()) - 1;
  }

  // A vector in brackets, as three numbers or as one vector: body axes.
  Operand parse_place(std::string_view what) {
    need('(', "");
    const std::size_t place = at;
    Operand out = parse_sum();
    if (out.type == Type::scalar) {
      std::array<Operand, 3> e{out};
      for (std::size_t i = 1; i < 3; ++i) {
        need(',', "between the three coordinates of a " + std::string(what));
        e[i] = parse_sum();
        want(e[i], Type::scalar, std::string("a coordinate of a ") + std::string(what));
      }
      Operation op{Code::make};
      op.a = e[0].at, op.b = e[1].at, op.c = e[2].at;
      out = emit(op, Type::vector, {e[0], e[1], e[2]}, place);
    }
    need(')', "after the coordinates of a " + std::string(what));
    if (out.constant && !vector(out).allFinite())
      throw Fault(place, "the coordinates of this " + std::string(what) + " are not finite");
    return out;
  }
  // The same where it has to be fixed in its body.
  Vector3d parse_fixed_place(std::string_view what) {
    const Operand out = parse_place(what);
    if (!out.constant)
      throw Fault(out.place, "the coordinates of " + std::string(what == "axis" ? "an " : "a ") + std::string(what) +
                                 " in its body must be constant: use numbers and parameters only");
    return vector(out);
  }

  // theta, theta': a coordinate and its rate.
  Operand parse_coordinate(int body, std::string_view name, std::size_t place) {
    skip();
    if (at < text.size() && (text[at] == '.' || text[at] == '('))
      throw Fault(at, "'" + std::string(name) + "' is a coordinate, a number: write " + std::string(name) + ", or " +
                          std::string(name) + "' for its rate");
    const std::size_t prime = at;
    const bool rate = next('\'');
    if (rate && at < text.size() && text[at] == '\'') {
      ++at;
      if (at < text.size() && text[at] == '\'') throw Fault(at, "there is no third rate");
      return unary(Code::x, Type::scalar, parse_acceleration("acceleration", body, prime), place);
    }
    if (rate) {
      tape.uses_motion = true;
      if (!names.motion)
        throw Fault(prime,
                    "rates cannot be used here, because this depends on positions only. Write velocity = \"…\" for an "
                    "equation on rates");
    }
    Operation op{rate ? Code::velocity : Code::position};
    op.b = use(body, place);
    op.bodies = std::uint64_t{1} << op.b;
    return unary(Code::x, Type::scalar, emit(op, Type::vector, {}, place), place);
  }

  // Of the body's material point that is now at a place which moves in the body.
  template <class Demand>
  Operand moving_point(Code code, Operation op, const Operand& at_point, Demand turning, std::size_t place) {
    turning();
    op.code = code;
    op.a = at_point.at;
    return emit(op, Type::vector, {at_point}, place);
  }

  // R x or Rᵀ x of an expression.
  Operand turned(const Matrix3d& R, const Operand& x, std::size_t place) {
    std::array<Operand, 3> part;
    for (int i = 0; i < 3; ++i)
      part[static_cast<std::size_t>(i)] =
          binary(Code::dot, Type::scalar, literal(Vector3d(R.row(i).transpose()), place), x, place);
    Operation op{Code::make};
    op.a = part[0].at, op.b = part[1].at, op.c = part[2].at;
    return emit(op, Type::vector, {part[0], part[1], part[2]}, place);
  }
  Operand moving_in_body(const Origin& origin, const Operand& p, std::size_t place) {
    if (!origin.frame) return p;
    return sum(literal(origin.frame->p_BF, place), turned(origin.frame->R_BF, p, place), false, place);
  }

  Operand parse_frame(const NamedFrame& frame, std::size_t place) {
    const std::size_t before = at;
    if (next('.')) {  // .frame may follow, as it must after the name of a body
      skip();
      if (identifier() != "frame") at = before;
    }
    return parse_quantity(frame.body, frame.name, place, Origin{&frame});
  }

  Operand parse_quantity(int body, std::string_view name, std::size_t place, const Origin& origin = {}) {
    if (kind_of(body) == BodyKind::coordinate) return parse_coordinate(body, name, place);
    static const std::vector<std::string> known = {"position",     "x",    "y",     "z",       "point",    "axis",
                                                   "velocity",     "vel",  "omega", "to_body", "to_frame", "frame",
                                                   "acceleration", "alpha"};
    const char* const inverse = origin.frame ? "to_frame" : "to_body";
    if (!next('.'))
      throw Fault(place, "'" + std::string(name) + (origin.frame ? "' is a frame" : "' is a body") +
                             ". Choose one of its quantities: " + std::string(name) +
                             ".position, .point(x, y, z), .axis(x, y, z), .velocity, .omega, ." + inverse + "(p)" +
                             (names.accelerations ? ", .acceleration, .alpha" : ""));
    skip();
    const std::size_t word_at = at;
    const std::string_view word = identifier();
    skip();
    if (word == "frame" && !origin.frame) {
      const NamedFrame* frame = find_frame(name);
      if (!frame)
        throw Fault(word_at, "'" + std::string(name) + "' is no link of a robot, so it has no frame of a file. Its " +
                                 "axes begin at its centre of mass");
      return parse_quantity(body, name, place, Origin{frame});
    }
    const bool call = at < text.size() && text[at] == '(';
    const auto moving = [&] {
      tape.uses_motion = true;
      if (!names.motion)
        throw Fault(word_at,
                    "velocities cannot be used here, because this depends on positions only. Write velocity = \"…\" "
                    "for an equation on velocities");
    };
    const auto turning = [&] {
      if (kind_of(body) == BodyKind::particle)
        throw Fault(word_at,
                    "'" + std::string(name) + "' is a particle: it has a position and a velocity, but no axes");
    };
    Operation op{Code::position};
    Type type = Type::vector;
    std::initializer_list<Operand> none = {};
    op.b = use(body, place);
    op.bodies = std::uint64_t{1} << op.b;
    const auto emit_point = [&](const Vector3d& p_BQ) {
      op.at = p_BQ;
      op.code = p_BQ.isZero() ? Code::position : Code::point;
      return emit(op, type, none, place);
    };
    const auto emit_velocity = [&](const Vector3d& p_BQ) {
      op.at = p_BQ;
      op.code = p_BQ.isZero() ? Code::velocity : Code::velocity_of;
      return emit(op, type, none, place);
    };
    const Vector3d here = origin.point(Vector3d::Zero());
    if (word == "position") return emit_point(here);
    if (word == "x" || word == "y" || word == "z")
      return unary(word == "x" ? Code::x : word == "y" ? Code::y : Code::z, Type::scalar, emit_point(here), word_at);
    if (word == "point" || word == "axis") {
      if (!call)
        throw Fault(at, "." + std::string(word) + " needs its coordinates in the " + (origin.frame ? "frame" : "body") +
                            ": ." + std::string(word) + "(x, y, z)");
      if (word == "point") {
        const Operand at_point = parse_place(word);
        if (!at_point.constant)
          return moving_point(Code::point_at, op, moving_in_body(origin, at_point, place), turning, place);
        if (!vector(at_point).isZero()) turning();
        return emit_point(origin.point(vector(at_point)));
      }
      const Vector3d axis = parse_fixed_place(word);
      turning();
      if (axis.isZero()) throw Fault(word_at, "an axis of length zero has no direction");
      op.code = Code::axis, op.at = origin.axis(axis);
      return emit(op, type, none, place);
    }
    if (word == "velocity" || word == "vel") {
      moving();
      if (!call) return emit_velocity(here);
      const Operand at_point = parse_place("point");
      if (!at_point.constant)
        return moving_point(Code::velocity_at, op, moving_in_body(origin, at_point, place), turning, place);
      if (!vector(at_point).isZero()) turning();
      return emit_velocity(origin.point(vector(at_point)));
    }
    if (word == "acceleration" || word == "alpha") {
      const bool angular = word == "alpha";
      if (angular) turning();
      const Operand a = parse_acceleration(angular ? "alpha" : "acceleration", body, word_at);
      if (angular) return a;
      const Vector3d p_BQ = call ? origin.point(parse_fixed_place("point")) : here;
      if (p_BQ.isZero()) return a;
      turning();
      tape.uses_motion = true;
      op.code = Code::axis, op.at = p_BQ;  // a + alpha x r + omega x (omega x r)
      const Operand r = emit(op, type, none, place);
      op.code = Code::omega, op.at.setZero();
      const Operand w = emit(op, type, none, place), alpha = parse_acceleration("alpha", body, word_at);
      const auto crossed = [&](const Operand& x, const Operand& y) { return binary(Code::cross, type, x, y, place); };
      return sum(sum(a, crossed(alpha, r), false, place), crossed(w, crossed(w, r)), false, place);
    }
    if (word == "omega") {
      moving();
      turning();
      op.code = Code::omega;
      return emit(op, type, none, place);
    }
    if (word == inverse) {
      turning();
      need('(', "after " + std::string(inverse) + ": the world point to look at");
      const Operand x = parse_sum();
      want(x, Type::vector, std::string(inverse) + "()");
      need(')', "to close " + std::string(inverse) + "()");
      op.code = Code::to_body;
      op.a = x.at;
      op.bodies |= x.bodies;
      const Operand in_body = emit(op, type, none, place);
      if (!origin.frame) return in_body;
      return turned(origin.frame->R_BF.transpose(), sum(in_body, literal(origin.frame->p_BF, place), true, place),
                    place);
    }
    throw Fault(word_at, word.empty() ? "a quantity of '" + std::string(name) + "' is missing after the dot"
                                      : std::string(origin.frame ? "a frame" : "a body") + " has no \"" +
                                            std::string(word) + "\"" + quantity_hint(word, known));
  }

  void begin(std::string_view all) {
    if (all.size() > longest_text)
      throw Fault(0, "a text of " + std::to_string(all.size()) + " characters; " + std::to_string(longest_text) +
                         " are the most");
    text = all;
    at = 0;
    depth = 0;
    skip();
    if (at >= text.size()) throw Fault(0, "the expression is empty");
  }
  void end() {
    skip();
    if (at >= text.size()) return;
    if (text[at] == '=') throw Fault(at, "an equation has one '=', between its two sides");
    if (text[at] == ')' || text[at] == ']') throw Fault(at, "this bracket was never opened");
    if (text[at] == '<' || text[at] == '>')
      throw Fault(at,
                  "an equation needs '='. For an inequality, write an equation with unilateral = true; contacts and "
                  "limits belong to the engine");
    if (is_letter(text[at])) no_product();
    throw Fault(at, "expected an operator (+ - * / ^) or the end, found " + shown());
  }
  void keep(const Operand& x) { tape.results.push_back({x.type, x.at}); }
};

Compiler::Compiler(const Names& names, const Constants& constants) : impl_(std::make_unique<Impl>(names, constants)) {}
Compiler::~Compiler() = default;

void Compiler::equation(std::string_view text) {
  Impl& i = *impl_;
  i.begin(text);
  const Operand left = i.parse_sum();
  i.skip();
  const std::size_t place = i.at;
  if (!i.next('=')) {
    i.end();
    throw Fault(i.at, "an equation has two sides: … = 0, for instance");
  }
  if (i.at < text.size() && text[i.at] == '=') throw Fault(i.at, "write one '=', not two");
  const Operand right = i.parse_sum();
  i.end();
  if (left.type != right.type) {
    const bool zero = right.type == Type::scalar && right.constant && i.scalar(right) == 0;
    throw Fault(place, std::string("the left side is ") + to_string(left.type) + ", the right side " +
                           to_string(right.type) + (zero ? "; the zero vector is [0, 0, 0]" : ""));
  }
  if (left.constant && right.constant)
    throw Fault(0, "this equation contains neither a body nor the time, so it constrains nothing");
  const bool zero = right.constant && (right.type == Type::scalar ? i.scalar(right) == 0 : i.vector(right).isZero(0));
  i.keep(zero ? left : i.sum(left, right, true, place));
}

Type Compiler::expression(std::string_view text, std::optional<Type> wanted) {
  Impl& i = *impl_;
  i.begin(text);
  const Operand x = i.parse_sum();
  i.end();
  if (wanted && x.type != *wanted)
    throw Fault(0, std::string("expected ") + to_string(*wanted) + ", this is " + to_string(x.type));
  i.keep(x);
  return x.type;
}

Tape Compiler::finish() { return std::move(impl_->tape); }

Constant constant(std::string_view text, const Constants& constants) {
  Names nothing;
  nothing.time = false;
  Compiler compiler(nothing, constants);
  const Type type = compiler.expression(text);
  const Tape tape = compiler.finish();
  const auto at = static_cast<std::size_t>(tape.results.front().at);
  if (type == Type::vector) return tape.vectors[at];
  return tape.scalars[at];
}

}  // namespace linchpin::scene
