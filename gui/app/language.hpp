// The language of what people read: that of the desktop where there is a translation, or the one asked for. Texts are in gui/translations;
// messages of the parser and names of fields come from sim/ and are English.
#pragma once

#include <QStringList>

#include <memory>
#include <vector>

class QTranslator;

namespace orrery {

QStringList languages(); // "en", and those compiled in: "de"

// Translates while it lives, numbers and dates too.
class Language {
  public:
    explicit Language(const QString& wanted); // one of languages(); empty: the desktop's
    ~Language();
    const QString& name() const { return name_; }

  private:
    void load(const QString& file, const QString& from);
    QString name_;
    std::vector<std::unique_ptr<QTranslator>> translators_;
};

} // namespace orrery
