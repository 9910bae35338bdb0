#include "gui/editor/scenario_document.hpp"

#include "gui/editor/json_place.hpp"
#include "sim/scenario/sweep.hpp"

#include <QFile>
#include <QFileInfo>
#include <QSaveFile>
#include <QUndoCommand>
#include <QUndoStack>

#include <optional>

namespace orrery {

// The text before and after. Typing merges with the typing before it until something else happens; changes of one edit merge.
class EditCommand : public QUndoCommand {
  public:
    static constexpr int typing = 1, field = 2;
    EditCommand(ScenarioDocument& document, std::string after, const QString& what, int kind, int edit = 0)
        : QUndoCommand(what), document_(document), before_(document.text_), after_(std::move(after)), kind_(kind), edit_(edit) {}

    int id() const override { return kind_; } // -1: never merges
    bool mergeWith(const QUndoCommand* next) override {
        const auto* other = static_cast<const EditCommand*>(next);
        if (edit_ != other->edit_) return false;
        after_ = other->after_;
        setText(other->text());
        setObsolete(after_ == before_);
        return true;
    }
    void redo() override { document_.assign(after_); }
    void undo() override { document_.assign(before_); }

  private:
    ScenarioDocument& document_;
    std::string before_, after_;
    int kind_, edit_;
};

namespace {

// Empty where there is no such file.
std::optional<std::string> text_of(const QString& path) {
    QFile file(path);
    if (path.isEmpty() || !file.open(QIODevice::ReadOnly)) return std::nullopt;
    return file.readAll().toStdString();
}

} // namespace

ScenarioDocument::ScenarioDocument(QObject* parent) : QObject(parent), undo_(new QUndoStack(this)) {}

void ScenarioDocument::load(const std::string& text, const QString& path, const std::string& base_dir) {
    undo_->clear();
    path_ = path;
    base_dir_ = base_dir;
    saved_ = text;
    assign(text);
    Q_EMIT replaced();
    Q_EMIT saveStateChanged();
}

void ScenarioDocument::type(const std::string& text) {
    if (text != text_) undo_->push(new EditCommand(*this, text, tr("typing"), EditCommand::typing));
}

void ScenarioDocument::replace(const std::string& text, const QString& what, int edit) {
    if (text != text_) undo_->push(new EditCommand(*this, text, what, edit == 0 ? -1 : EditCommand::field, edit));
}

bool ScenarioDocument::setField(const std::string& pointer, const std::string& value, const QString& what, int edit) {
    const std::optional<std::string> text = with_value(text_, pointer, value);
    if (text) replace(*text, what, edit);
    return text.has_value();
}

bool ScenarioDocument::resetField(const std::string& pointer, const QString& what, int edit) {
    const std::optional<std::string> text = without_value(text_, pointer);
    if (text) replace(*text, what, edit);
    return text.has_value();
}

bool ScenarioDocument::differsOnDisk() const {
    const auto there = text_of(path_);
    return there && *there != saved_;
}

QString ScenarioDocument::readAgain() {
    const auto there = text_of(path_);
    if (!there) return tr("%1 cannot be read").arg(path_);
    saved_ = *there;
    replace(*there, tr("reading the file again"));
    Q_EMIT saveStateChanged();
    return {};
}

QString ScenarioDocument::save(const QString& path) {
    QSaveFile file(path);
    const auto size = static_cast<qint64>(text_.size());
    if (!file.open(QIODevice::WriteOnly) || file.write(text_.data(), size) != size || !file.commit())
        return tr("%1 could not be written: %2").arg(path, file.errorString());
    path_ = path;
    base_dir_ = QFileInfo(path).absolutePath().toStdString();
    saved_ = text_;
    Q_EMIT saveStateChanged();
    return {};
}

void ScenarioDocument::assign(const std::string& text) {
    text_ = text;
    parse();
    Q_EMIT changed();
}

void ScenarioDocument::parse() {
    ParseOptions options;
    options.base_dir = base_dir_;
    if (is_sweep(text_)) { // its first point stands for it: what is wrong with the text itself is the sweep reader's to say
        const SweepResult sweep = parse_sweep(text_, options);
        parsed_ = sweep.document ? parse_scenario(sweep.document->base_json(), options) : ParseResult{{}, sweep.problems};
    } else {
        parsed_ = parse_scenario(text_, options);
    }
    if (!parsed_.scenario) return;
    parsed_.problems = unsupported(*parsed_.scenario);
    if (!parsed_.problems.empty()) parsed_.scenario.reset();
}

} // namespace orrery
