// The elements of an XML document.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace hocket::cache {

// path: the names of the elements from the outermost to this, joined by '/', without namespaces. Elements
// that have elements within have no text.
using ElementEnded = std::function<void(const std::string& path, const std::string& text)>;

// Walks through a document and tells the ends of its elements. Returns "" or why it is not well formed, or
// has a document type, whose entities could be made to grow. Throws the Errors that `ended` throws.
std::string walk_xml(std::string_view xml, const ElementEnded& ended);

}  // namespace hocket::cache
