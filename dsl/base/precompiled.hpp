// Headers that most sources of the product include, compiled once for each library. This only saves time:
// each source still includes what it needs (a build with b_pch=false shows it).

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>
