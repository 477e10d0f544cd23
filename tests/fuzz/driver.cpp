// Where there is no libFuzzer: every file of the corpus once, then a given number of inputs made from them, always the
// same ones. `fuzz-scene 5000 corpus/scene` runs them, `fuzz-scene =137 corpus/scene` prints the 137th.
#include "fuzz.h"

#include <csignal>
#include <cstring>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

class Numbers {  // splitmix64: the same everywhere
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t n) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return n == 0 ? 0 : static_cast<std::size_t>((z ^ (z >> 31)) % n);
  }

 private:
  std::uint64_t state_;
};

// What people and attackers type.
const char* const words[] = {
    "0",
    "-1",
    "1e308",
    "1e-320",
    "nan",
    "inf",
    "-0.0",
    "99999999999999999999",
    "2147483648",
    "0x7fffffffffffffff",
    "\"",
    "'",
    "\"\"\"",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "(",
    ")",
    "=",
    "==",
    ",",
    ".",
    "^",
    "/0",
    "#",
    "\n",
    "\r\n",
    "\0x",
    "\xEF\xBB\xBF",
    "\xC3\xA9",
    "\xFF",
    "schema = 2\n",
    "[[body]]\n",
    "[[constraint]]\n",
    "[[repeat]]\ncount = 3\n",
    "[[chain]]\n",
    "name = \"p\"\n",
    "kind = \"particle\"\n",
    "mass = 1\n",
    "include = \"fuzz.toml\"\n",
    "include = \"x.bullet\"\n",
    "equation = \"p.x = 0\"\n",
    "velocity = \"p.velocity = [0,0,0]\"\n",
    "{i}",
    "{i+1}",
    "sin(t)",
    "sqrt(0)",
    ".position",
    ".point(0,0,0)",
    ".axis(0,0,1)",
    ".velocity",
    "dist2(",
    "norm(",
    "cross(",
    "atan2(0,0)",
    "reaction(",
    "energy()",
    "t",
    "pi",
    "2 m/s",
    "p.x",
    "load.y",
    "<=",
    "**",
    "''",
    "{ force = \"[N,0,0]\" }",
    "<link name=\"a\"/>",
    "<joint name=\"j\" type=\"revolute\">",
    "<mimic joint=\"one\"/>",
    "<axis xyz=\"0 0 0\"/>",
    "/>",
    "</link>",
    "<!--",
};

std::string made(const std::vector<std::string>& corpus, std::uint64_t number) {
  Numbers random(number);
  std::string text = corpus[random.below(corpus.size())];
  for (std::size_t edits = 1 + random.below(6); edits > 0; --edits) {
    const std::size_t at = random.below(text.size() + 1),
                      length = random.below(1 + std::min<std::size_t>(text.size() - at, 40));
    switch (random.below(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(random.below(text.size() + 1), length));
        break;
      case 2:
        text.insert(at, words[random.below(std::size(words))]);
        break;
      case 3:
        text.replace(at, length, words[random.below(std::size(words))]);
        break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      default: {
        const std::string& other = corpus[random.below(corpus.size())];
        text.insert(at, other.substr(random.below(other.size() + 1), random.below(200)));
      }
    }
  }
  return text;
}

volatile std::sig_atomic_t running = -1;  // the input that is being tried

void say_which(int signal) {
  char digits[24];
  std::size_t n = sizeof digits;
  digits[--n] = '\n';
  long i = running;
  do digits[--n] = static_cast<char>('0' + i % 10);
  while ((i /= 10) > 0);
  static const char before[] = "fuzz: died of input ";
  (void)!::write(2, before, sizeof before - 1);
  (void)!::write(2, digits + n, sizeof digits - n);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int run(const std::string& text) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s COUNT FOLDER…\n", argv[0]);
    return 2;
  }
  std::vector<fs::path> files;
  for (int i = 2; i < argc; ++i)
    for (const auto& entry : fs::recursive_directory_iterator(argv[i]))
      if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "fuzz: the corpus is empty\n");
    return 2;
  }
  if (argv[1][0] == '=') {
    const std::string text = made(corpus, std::strtoull(argv[1] + 1, nullptr, 10));
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGALRM}) std::signal(signal, say_which);
  for (const std::string& text : corpus) run(text);
  const long count = std::strtol(argv[1], nullptr, 10);
  for (long i = 0; i < count; ++i) {
    running = static_cast<std::sig_atomic_t>(i);
    ::alarm(20);  // no input takes that long
    run(made(corpus, static_cast<std::uint64_t>(i)));
  }
  std::printf("%zu files and %ld inputs made from them\n", corpus.size(), count);
  return 0;
}
